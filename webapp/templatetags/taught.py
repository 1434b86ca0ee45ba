"""What a person taught beside a reply, for the page under it."""

from __future__ import annotations

from django import template

from chat.models import Turn
from feedback.models import Feedback
from judge.models import Hint
from webapp import taught
from webapp.taught import Worded

register = template.Library()


@register.simple_tag
def wish_of(guidance: Feedback | str | None) -> Worded | None:
    """What of this guidance is taught; None without any."""
    return taught.worded(guidance) if isinstance(guidance, Feedback) else None


@register.simple_tag
def hints_heard(turn: Turn) -> list[Hint]:
    """The accepted hints of the person's next message."""
    known = getattr(turn, "heard", None)
    return known if known is not None else taught.heard([turn]).get(turn.pk, [])
