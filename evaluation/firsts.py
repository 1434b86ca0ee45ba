"""First replies: of each conversation the first thing that was answered, before a person could steer it, and whether
its person was content with it or asked for a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from chat.models import Turn
from core.statistics import Arm, count_arms, wilson
from feedback.models import Feedback

WHOLE = ("stop", "length", "tool_calls")
"""How a reply ends that a person could read to its end."""

MOST = 2_000
"""First replies that are looked at, the newest: what is older says little of what answers now."""

WINDOW = 10
"""First replies that a running mean is taken over."""


@dataclass(frozen=True)
class First:
    """One conversation's first reply."""

    at: datetime
    checkpoint: int
    """The number of the one that answered."""
    score: int | None
    """1: they went on content; -1: they asked for a change, or thumbed it down; None: undecided."""
    is_said: bool
    """They said so themselves; else it was read out of what followed."""


@dataclass(frozen=True)
class Moment:
    """The share that was content among the last first replies up to one of them, and where the true one lies."""

    at: datetime
    share: float
    low: float
    high: float
    content: int
    number: int


def firsts(turns: QuerySet[Turn]) -> list[First]:
    """The first whole main-line reply of each conversation, where it is among these turns; the oldest first. One
    query."""
    main = Turn.objects.filter(session=OuterRef("session"), line=Turn.Line.MAIN, finish_reason__in=WHOLE)
    begun = turns.filter(pk=Subquery(main.order_by("position").values("pk")[:1])).order_by("-created_at")
    own = Feedback.objects.standing().filter(turn=OuterRef("pk"), by=OuterRef("session__user")).order_by("-pk")
    begun = begun.annotate(
        thumb=Subquery(own.filter(kind=Feedback.Kind.THUMB).values("value")[:1]),
        wants_change=Exists(own.filter(kind__in=(Feedback.Kind.REWRITE, Feedback.Kind.GUIDANCE))),
    )
    columns = ("created_at", "checkpoint__number", "status", "judgement__reward", "judgement__reward_from")
    rows = list(begun.values_list(*columns, "thumb", "wants_change")[:MOST])
    found = []
    for at, checkpoint, status, reward, reward_from, thumb, wants_change in reversed(rows):
        stands = reward if status == Turn.Status.JUDGED else None  # feedback re-opened the others
        score, is_said = received(thumb, wants_change, stands)
        found.append(First(at, checkpoint, score, is_said or (score is not None and reward_from == "marks")))
    return found


def received(thumb: int | None, wants_change: bool, reward: int | None) -> tuple[int | None, bool]:
    """How a reply was received, and whether its person said so: their thumb first, then a correction, then what was
    read out of what came back.

    >>> received(1, True, -1), received(None, True, 1), received(None, False, 1), received(None, False, 0)
    ((1, True), (-1, True), (1, False), (None, False))
    """
    if thumb in (1, -1):
        return thumb, True
    if wants_change:
        return -1, True
    return (reward if reward in (1, -1) else None), False


def running(rows: Sequence[First], window: int = WINDOW) -> list[Moment]:
    """The share content over the last `window` scored first replies, at each of them, with Wilson's interval."""
    scored = [row for row in rows if row.score is not None]
    found = []
    for place, row in enumerate(scored):
        seen = scored[max(0, place + 1 - window) : place + 1]
        content = sum(one.score == 1 for one in seen)
        edges = wilson(content, len(seen))
        found.append(Moment(row.at, content / len(seen), edges.low, edges.high, content, len(seen)))
    return found


def arms(rows: Sequence[First]) -> dict[int, Arm]:
    """Content and not, by the number of the checkpoint that answered.

    >>> at = datetime(2026, 1, 1)
    >>> arms([First(at, 0, -1, True), First(at, 2, 1, False), First(at, 2, None, False)])
    {0: Arm(ups=0, downs=1), 2: Arm(ups=1, downs=0)}
    """
    return count_arms((row.checkpoint, row.score > 0) for row in rows if row.score is not None)
