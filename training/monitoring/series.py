"""Lines of a run's figures, short enough to send: of many points each stretch keeps its lowest and its highest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training.monitoring.limits import number

MOST_POINTS = 400
"""Points that a line has at most."""


@dataclass(frozen=True)
class Series:
    """One figure of one run. The three agree in length; None is an update without a number."""

    steps: tuple[float, ...]
    """The update, or, of what is measured beside the updates, how many were done."""
    times: tuple[float, ...]
    """Seconds since the run began."""
    values: tuple[float | None, ...]

    def bounded(self, most: int = MOST_POINTS) -> Series:
        """The same line in at most so many points."""
        places = kept(self.values, most)
        return Series(
            tuple(self.steps[place] for place in places),
            tuple(self.times[place] for place in places),
            tuple(self.values[place] for place in places),
        )


def kept(values: Sequence[float | None], most: int = MOST_POINTS) -> list[int]:
    """The places of the values that stay: all where they are few; else the first, the last, and of each stretch the
    lowest, the highest and a gap.

    >>> kept([1.0, 2.0, 3.0])
    [0, 1, 2]
    >>> values = [0.0] * 100
    >>> values[41], values[42] = 9.0, -9.0
    >>> len(kept(values, 12)) <= 12, {41, 42} <= set(kept(values, 12))
    (True, True)
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = max(1, (most - 2) // 3)
    found = {0, len(values) - 1}
    for stretch in range(stretches):
        places = range(stretch * len(values) // stretches, (stretch + 1) * len(values) // stretches)
        known = [(value, place) for place in places if (value := values[place]) is not None]
        if known:
            found |= {min(known)[1], max(known)[1]}
        if len(known) < len(places):
            found.add(next(place for place in places if values[place] is None))
    return sorted(found)


def of_updates(metrics: Sequence[Mapping[str, Any]], name: str) -> Series | None:
    """A figure over a run's updates; None where no update has it as a number."""
    steps = [step for step in metrics if isinstance(step, Mapping)]
    values = tuple(number(step.get(name)) for step in steps)
    if all(value is None for value in values):
        return None
    return Series(tuple(_updates(steps)), tuple(_times(steps)), values)


def _updates(steps: Sequence[Mapping[str, Any]]) -> Iterable[float]:
    for place, step in enumerate(steps, 1):
        found = number(step.get("update"))
        yield float(place) if found is None else found


def _times(steps: Sequence[Mapping[str, Any]]) -> Iterable[float]:
    """When each update was done; of runs that kept no times, how long the updates took until then."""
    passed = 0.0
    for step in steps:
        passed += number(step.get("seconds")) or 0.0
        at = number(step.get("at_s"))
        passed = passed if at is None else at
        yield round(passed, 1)


def of_usage(usage: Sequence[Mapping[str, Any]], name: str) -> Series | None:
    """What a run took of the machine over time, by a column of its usage; None where it was not measured."""
    rows = [row for row in usage if number(row.get("at_s")) is not None]
    values = tuple(number(row.get(name)) for row in rows)
    if all(value is None for value in values):
        return None
    return Series(
        tuple(number(row.get("updates")) or 0.0 for row in rows), tuple(float(row["at_s"]) for row in rows), values
    )
