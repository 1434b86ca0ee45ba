"""What `manage.py check`, and so every start, says of when learning may run and of what can be learned."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Warning

from training import hours, learnable
from training.hours import HoursInvalid


def hours_can_be_read(**kwargs: Any) -> list[CheckMessage]:
    """An unreadable range would have learning run at the wrong time, or never."""
    try:
        hours.rules()
    except HoursInvalid as error:
        return [Error(str(error), hint="See docs/how-to/schedule-learning.md.", id="training.E001")]
    return []


def model_can_be_learned(**kwargs: Any) -> list[CheckMessage]:
    """A model that the learner cannot load may still be chatted with and examined, so this warns."""
    return [Warning(reason, id="training.W001")] if (reason := learnable.why_not()) else []
