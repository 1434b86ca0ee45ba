"""Count what waits for a reviewer."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Value

from judge.hints import undecided
from judge.models import Hint
from webapp.console.review import hint_queue, reward_queue


@dataclass(frozen=True)
class ForReview:
    hints: int = 0
    """That wait for a person."""
    unclear: int = 0
    """Replies whose reward the judge was not sure of."""


def count() -> ForReview:
    """Both numbers, in one query."""
    hints = Hint.objects.filter(hint_queue.ON_RECORD, status=Hint.Status.WAITING)
    unclear = undecided.unclear().select_related(None).filter(reward_queue.ON_RECORD)
    parts = [
        rows.order_by().annotate(of=Value(name)).values("of").annotate(n=Count("pk")).values_list("of", "n")
        for name, rows in (("hints", hints), ("unclear", unclear))
    ]
    return ForReview(**dict(parts[0].union(parts[1], all=True)))
