"""Format what the review desk shows."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext, gettext_noop, pgettext

from chat.models import Turn
from feedback import reasons
from judge.hints import decisions
from judge.models import Hint, Overruling
from webapp.console.review.desk import signed

register = template.Library()

TONES = {
    Hint.Status.WAITING: "active",
    Hint.Status.ACCEPTED: "good",
    Hint.Status.EDITED: "good",
    Hint.Status.MERGED: "",
    Hint.Status.REJECTED: "bad",
}


OF_ROWS = (
    *(gettext_noop("system"), gettext_noop("assistant"), gettext_noop("developer")),
    *(gettext_noop("ready"), gettext_noop("claimed"), gettext_noop("trained"), gettext_noop("stale")),
    *(gettext_noop("candidate"), gettext_noop("passed"), gettext_noop("approved"), gettext_noop("live")),
    *(gettext_noop("retired"), gettext_noop("rejected")),
)
"""What rows of chats, training and checkpoints hold that `translated` shows: roles and states."""


@register.filter
def hint_tone(status: str) -> str:
    """The tone of a hint's chip."""
    return TONES.get(Hint.Status(status), "")


@register.filter
def translated(words: str | None) -> str:
    """A word that a row keeps in English, in the reader's language; as it is where no translation knows it."""
    return gettext(words) if words else ""


@register.filter
def hint_status(status: str) -> str:
    """How it stands with a hint, which languages say by its gender; webapp.console.audit marks these words."""
    return pgettext("hint", status)


@register.filter
def reason_shown(tag: str) -> str:
    """Why a reply was good or bad: a known word in the reader's language, a person's own as it is."""
    return reasons.Tag(tag).shown


@register.filter
def standing(hint: Hint) -> str:
    """What the page shows of it, as a decision is told."""
    return decisions.standing(hint)


@register.filter
def percent(share: float | None) -> str:
    """A share as people say it: "67 %"."""
    return "" if share is None else f"{100 * share:.0f} %"


@register.filter
def two_digits(value: float | None) -> str:
    """With its sign, a real minus and two digits: "+0.42"."""
    return "" if value is None else f"{value:+.2f}".replace("-", "−")


@register.filter
def reward_of(reward: int | None) -> str:
    """A reward for people: "+1", "0", "−1", "none"."""
    return signed(reward)


@register.filter
def overruled(turn: Turn) -> Overruling | None:
    """A reviewer's word on it, if there is one."""
    return getattr(turn, "overruling", None)
