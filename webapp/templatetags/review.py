"""Format what the review desk shows."""

from __future__ import annotations

from typing import Any

from django import template
from django.template import Context
from django.utils.translation import gettext, gettext_noop, pgettext

from chat.models import Turn
from feedback import reasons
from judge.hints import decisions
from judge.models import Hint, Overruling
from judge.votes import evidence, prompts, shown_pictures
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


@register.inclusion_tag("judging/_evidence.html", takes_context=True)
def evidence_read(context: Context, turn: Turn, text: str) -> dict[str, Any]:
    """The evidence of a turn in this text, and the pictures with it; a reader who is not its person is told how many
    there are. Whether a judge saw them is read off the page's `votes`."""
    shown = evidence.pictures_of(turn)
    kept = [one for one in shown if shown_pictures.is_kept(one)]
    is_own = getattr(context.get("user"), "pk", None) == turn.session.user_id
    return {
        "turn": turn,
        "text": text,
        "before": [one for one in kept if is_own and not one.is_after],
        "after": [one for one in kept if is_own and one.is_after],
        "hidden": 0 if is_own else len(kept),
        "gone": len(shown) - len(kept),
        "seen": any(vote.prompt_version.endswith(prompts.SEEING) for vote in context.get("votes") or ()),
    }


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
