"""How well a judge agrees with those who know: its confusion matrix, accuracy and kappa. Pure.

The judge's answer may be missing (too few of its votes could be read). That is an answer of its own, written None:
it is never right, so that a judge does not look better by falling silent where it is hard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from core.statistics import Bounds, wilson

Key = TypeVar("Key", str, date)

SCORES = (1, 0, -1)
ANSWERS: tuple[int | None, ...] = (*SCORES, None)


@dataclass(frozen=True)
class Reading:
    """One follow-up: what it means, what the judge said of it, whose it was, and when."""

    expected: int
    said: int | None
    role: str
    at: datetime


@dataclass(frozen=True)
class Agreement:
    """A judge beside those who know: each pair is (expected, said)."""

    counts: Counter[tuple[int, int | None]]

    @property
    def measured(self) -> int:
        return sum(self.counts.values())

    @property
    def right(self) -> int:
        return sum(count for (expected, said), count in self.counts.items() if expected == said)

    @property
    def silent(self) -> int:
        """How often it came to no verdict."""
        return sum(count for (_, said), count in self.counts.items() if said is None)

    @property
    def accuracy(self) -> float | None:
        """The share of follow-ups on which it said what was expected; None when none was measured."""
        return self.right / self.measured if self.measured else None

    @property
    def interval(self) -> Bounds:
        return wilson(self.right, self.measured)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: 1 always agrees, 0 agrees as often as chance would, with the same habits on both sides.

        None when nothing was measured, or when both sides know one answer only: chance then explains everything.
        """
        total = self.measured
        if not total:
            return None
        expected, said = Counter[int | None](), Counter[int | None]()
        for (meant, answered), count in self.counts.items():
            expected[meant] += count
            said[answered] += count
        chance = sum(expected[answer] * said[answer] for answer in ANSWERS) / total**2
        if chance == 1:
            return None
        return (self.right / total - chance) / (1 - chance)

    def of(self, expected: int, said: int | None) -> int:
        """One cell of the confusion matrix."""
        return self.counts[expected, said]


def agreement(readings: Iterable[Reading]) -> Agreement:
    """All of these as one."""
    return Agreement(Counter((reading.expected, reading.said) for reading in readings))


def by_role(readings: Iterable[Reading]) -> dict[str, Agreement]:
    """By whose next state it was, the roles in alphabetical order."""
    return _grouped(readings, lambda reading: reading.role)


def over_time(readings: Iterable[Reading], *, days: int = 1) -> dict[date, Agreement]:
    """By day, or by spans of `days` that begin on a Monday where they are seven; oldest first, empty ones left out."""
    monday = date(1970, 1, 5).toordinal()

    def span(reading: Reading) -> date:
        ordinal = reading.at.astimezone(UTC).date().toordinal()
        return date.fromordinal(ordinal) - timedelta(days=(ordinal - monday) % days)

    return _grouped(readings, span)


def spans(readings: Sequence[Reading]) -> tuple[int, dict[date, Agreement]]:
    """Over time, by days as long as there are few of them, else by weeks: the length in days, and the spans."""
    daily = over_time(readings)
    return (1, daily) if len(daily) <= 14 else (7, over_time(readings, days=7))


def _grouped(readings: Iterable[Reading], key: Callable[[Reading], Key]) -> dict[Key, Agreement]:
    groups: dict[Key, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(key(reading), []).append(reading)
    return {name: agreement(groups[name]) for name in sorted(groups)}
