"""Run the sweep as a Celery task, and let workers find the tasks that send e-mail."""

from celery import shared_task

from webapp import pipeline
from webapp.people.password_reset import mail as mail  # workers know the tasks that this module names


@shared_task
def sweep() -> int:
    return pipeline.sweep()
