"""Tasks of the whole: the sweep."""

import logging

from asgiref.sync import async_to_sync
from celery import shared_task

from core.errors import TalkbackError
from training import promotion
from webapp import pipeline

log = logging.getLogger(__name__)


@shared_task
def sweep() -> int:
    """Send what is due again, and have the engine hold what the rows say."""
    sent = pipeline.sweep()
    try:
        async_to_sync(promotion.repair)()
    except TalkbackError as error:
        log.warning("adapters were not compared: %s", error)
    return sent
