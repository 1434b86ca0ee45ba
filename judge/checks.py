"""What `manage.py check`, and so every start, says of the judges and of what is removed, as the settings name them."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from judge.samples import redaction
from judge.votes import judges
from judge.votes.naming import JudgesInvalid


def judges_can_be_made(**kwargs: Any) -> list[CheckMessage]:
    """Nothing is asked and nothing is loaded: only what the settings say is read."""
    try:
        judges.panel()
    except JudgesInvalid as error:
        return [Error(str(error), hint="See docs/explanation/judging.md.", id="judge.E001")]
    return []


def removal_can_be_done(**kwargs: Any) -> list[CheckMessage]:
    """A kind that there is none of, or a pattern that cannot be read, would let through what the operator wants
    removed."""
    try:
        redaction.wanted()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="See docs/explanation/privacy.md.", id="judge.E002")]
    return []
