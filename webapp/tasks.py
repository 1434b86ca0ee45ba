"""Tasks of the whole: the sweep."""

from celery import shared_task

from webapp import pipeline


@shared_task
def sweep() -> int:
    return pipeline.sweep()
