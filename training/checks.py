"""What `manage.py check`, and so every start, says of when learning may run, as the settings say it."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error

from training import hours
from training.hours import HoursInvalid


def hours_can_be_read(**kwargs: Any) -> list[CheckMessage]:
    """An unreadable range would have learning run at the wrong time, or never."""
    try:
        hours.rules()
    except HoursInvalid as error:
        return [Error(str(error), hint="See docs/how-to/schedule-learning.md.", id="training.E001")]
    return []
