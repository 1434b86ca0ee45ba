"""Run the sweep as a Celery task."""

from celery import shared_task

from webapp import pipeline


@shared_task
def sweep() -> int:
    return pipeline.sweep()
