"""Count what waits for a reviewer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from core.counting import count_rows
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
    return ForReview(**count_rows(**rows()))


def rows() -> dict[str, QuerySet[Any, Any]]:
    """What waits, by the names of `ForReview`."""
    unclear = undecided.unclear().select_related(None).filter(reward_queue.ON_RECORD)
    return {"hints": Hint.objects.filter(hint_queue.ON_RECORD, status=Hint.Status.WAITING), "unclear": unclear}
