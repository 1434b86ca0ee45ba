"""Run the sweep, and the questions of a sample lesson, as Celery tasks, and let workers find those that send e-mail."""

from celery import shared_task
from django.contrib.auth.models import User

from gpu_workers import engines
from webapp import pipeline, sample_lesson
from webapp.people.password_reset import mail as mail  # workers know the tasks that this module names


@shared_task
def sweep() -> int:
    return pipeline.sweep()


@shared_task
def ask_samples(user_pk: int) -> int:
    """Ask what this person's sample lesson has no reply to yet."""
    return sample_lesson.ask(User.objects.get(pk=user_pk), engines.policy())
