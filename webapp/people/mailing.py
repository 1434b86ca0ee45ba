"""Send e-mail where it is set up: never from a request, which would wait for another server."""

from __future__ import annotations

import logging
from typing import Any

from celery import Task
from django.conf import settings
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)


def is_set_up() -> bool:
    """Whether this Talkback has a server that takes its e-mail."""
    return bool(settings.EMAIL_HOST)


def later(task: Task[..., Any], *arguments: str) -> None:
    """Have a worker send it. With Redis away it is not sent, and the log says so."""
    try:
        task.apply_async(arguments, retry=False)
    except OperationalError as error:
        log.warning("an e-mail was not sent: %s", error)
