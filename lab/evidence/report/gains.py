"""When an arm first does better than the base, and stays so. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core import statistics
from core.statistics import LEVEL, Interval, Values


@dataclass(frozen=True)
class Look:
    """One probe, held against the base."""

    update: int
    change: Interval
    """At the level that is left for one look."""

    @property
    def is_gain(self) -> bool:
        return self.change.low > 0


def looks(probes: Mapping[int, Values], base: Values, *, level: float = LEVEL) -> list[Look]:
    """Each probe's paired difference with the base, in order.

    Who looks n times and takes the first gain is wrong n times as often, so each interval is one of level
    1 − (1 − level) / n (Bonferroni): all of them hold together at `level`.

    >>> from core.statistics import Pair
    >>> [look.is_gain for look in looks({4: {Pair(1, "a"): 1.0}, 8: {Pair(1, "a"): 2.0}}, {Pair(1, "a"): 1.0})]
    [False, True]
    """
    each = 1 - (1 - level) / max(len(probes), 1)
    return [Look(update, statistics.difference(values, base, level=each)) for update, values in sorted(probes.items())]


def first_gain(found: Sequence[Look]) -> Look | None:
    """The first look that shows a gain and whose later looks all show one too: a gain that goes again is none."""
    first = None
    for look in reversed(found):
        if not look.is_gain:
            break
        first = look
    return first
