"""Run the sweep, and the questions of a sample lesson, as Celery tasks."""

from celery import shared_task
from django.contrib.auth.models import User

from gpu_workers import engines
from webapp import pipeline, sample_lesson


@shared_task
def sweep() -> int:
    return pipeline.sweep()


@shared_task
def ask_samples(user_pk: int) -> int:
    """Ask what this person's sample lesson has no reply to yet."""
    return sample_lesson.ask(User.objects.get(pk=user_pk), engines.policy())
