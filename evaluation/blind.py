"""The blind question: of two answers to what a person asked, the one they got and the frozen control's, which would
they rather have had?

Each person is asked of their own turns alone. The order is drawn once for each pair, and nothing that is shown says
which is which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Case, Count, Exists, F, OuterRef, QuerySet, Value, When, Window
from django.utils import timezone
from django.utils.translation import gettext as _

from core.errors import TalkbackError
from core.statistics import Tally
from evaluation import shadows
from evaluation.models import BlindChoice, Shadow

Picked = BlindChoice.Picked

SIDES = ("a", "b", "skip")

EARLIER = 6
"""Messages before the question that are shown with it: a person who forgot what it was about can read them."""


class PairGone(TalkbackError):
    """There is no such pair to choose from, or not any more."""

    code, status = "pair_gone", 404


@dataclass(frozen=True)
class Pair:
    """What a person is shown: their question, and two answers in a drawn order."""

    pk: int
    question: str
    earlier: tuple[tuple[str, str], ...]
    """(whose, text) of the last messages before it."""
    a: str
    b: str


def pairs(user: User) -> QuerySet[Shadow]:
    """All pairs that this person can fairly be asked about, the newest first.

    Both answers ended by themselves and differ in their words: a shadow is cut where a reply may go on, and is kept as
    it was sampled, with its tool calls and its thoughts, by which it would be known.
    """
    mine = shadows.standing().filter(turn__session__user=user, finish_reason="stop", turn__finish_reason="stop")
    mine = mine.filter(turn__tools=[]).exclude(turn__checkpoint=F("checkpoint"))
    mine = mine.exclude(text__contains="<think").exclude(turn__message__has_key="reasoning_content")
    return (
        mine.exclude(text="").exclude(turn__text="").exclude(text=F("turn__text")).order_by("-turn__created_at", "-pk")
    )


def waiting(user: User) -> QuerySet[Shadow]:
    """The pairs that this person has not chosen from, nor skipped."""
    return pairs(user).exclude(choices__by=user)


def at_hand(user: User, pk: int | None = None) -> tuple[Pair | None, int]:
    """The pair to ask about next, or the one with this number if it waits, None when none is left; and how many
    wait. One query."""
    named = Case(When(pk=pk, then=0), default=1) if pk is not None else Value(1)
    rows = waiting(user).annotate(every=Window(Count("*")), named=named).order_by("named", "-turn__created_at", "-pk")
    shadow = rows.select_related("turn").first()
    if shadow is None:
        return None, 0
    reply, other = shadow.turn.text.strip(), shadow.text.strip()
    a, b = (other, reply) if is_swapped(shadow.pk) else (reply, other)
    said = [(str(one.get("role")), worded(one.get("content"))) for one in shadow.turn.messages]
    places = [place for place, (role, text) in enumerate(said) if role == "user"]
    last = places[-1] if places else len(said)
    earlier = tuple((role, text) for role, text in said[:last] if role in ("user", "assistant") and text)
    return Pair(shadow.pk, said[last][1] if places else "", earlier[-EARLIER:], a, b), shadow.every


def worded(content: object) -> str:
    """A message's words; what is no text of it is left out.

    >>> worded("Hello."), worded([{"type": "text", "text": "Look:"}, {"type": "image_url"}]), worded(None)
    ('Hello.', 'Look:', '')
    """
    if isinstance(content, list):
        return " ".join(str(part.get("text") or "") for part in content if isinstance(part, dict)).strip()
    return str(content or "")


def is_swapped(pk: int) -> bool:
    """Whether the shadow is shown first there: a coin that falls once for each pair.

    >>> 450 < sum(is_swapped(pk) for pk in range(1000)) < 550
    True
    """
    return bool(hashlib.sha256(f"blind:{pk}".encode()).digest()[0] & 1)


@transaction.atomic
def choose(user: User, pk: int, side: str) -> BlindChoice:
    """This person would rather have had a or b, or skips. A later choice replaces it. Raises PairGone."""
    shadow = pairs(user).filter(pk=pk).first()
    if shadow is None or side not in SIDES:
        raise PairGone(_("There is no such pair to choose from any more. Here is the next one."))
    if side == "skip":
        picked = Picked.SKIPPED
    else:
        picked = Picked.SHADOW if (side == "a") == is_swapped(pk) else Picked.REPLY
    said = {"picked": picked, "at": timezone.now()}
    return BlindChoice.objects.update_or_create(shadow=shadow, by=user, defaults=said)[0]


@transaction.atomic
def undo(user: User) -> int | None:
    """Take back this person's last choice. Returns the number of its pair; None where there was none."""
    last = BlindChoice.objects.filter(by=user).select_for_update().first()
    if last is None:
        return None
    last.delete()
    return last.shadow_id


def choices_of(user: User) -> QuerySet[BlindChoice]:
    """What this person chose, as far as its turns are on the record."""
    return BlindChoice.objects.filter(Exists(shadows.standing().filter(pk=OuterRef("shadow"))), by=user)


def tally(picked: Iterable[str]) -> Tally:
    """The reply first, the control second; what was skipped counts for neither."""
    every = list(picked)
    return Tally(every.count(Picked.REPLY), every.count(Picked.SHADOW), every.count(Picked.SKIPPED))
