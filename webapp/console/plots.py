"""A judge's accuracy over time, drawn on the server: points with their intervals, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from judge.agreement import Agreement

WIDTH, HEIGHT = 640.0, 150.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 14.0, 8.0, 22.0


@dataclass(frozen=True)
class Spot:
    """One span of time: its accuracy, and between what the true one lies."""

    x: float
    y: float
    low: float
    high: float
    title: str


@dataclass(frozen=True)
class Line:
    """What one yardstick says over time."""

    name: str
    spots: tuple[Spot, ...]

    @property
    def points(self) -> str:
        return " ".join(f"{spot.x},{spot.y}" for spot in self.spots)


@dataclass(frozen=True)
class Plot:
    lines: tuple[Line, ...]
    days: int
    """How many days a spot stands for."""
    first: date
    last: date
    floor: float
    """Where the floor is drawn."""
    sentence: str

    @property
    def grid(self) -> list[tuple[float, str]]:
        """Lines across, each with its share."""
        return [(_y(share), f"{share:g}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]

    @property
    def each(self) -> str:
        return "day" if self.days == 1 else "week"


def plot(series: Mapping[str, Mapping[date, Agreement]], *, days: int, floor: float) -> Plot | None:
    """A plot of each yardstick's agreements over time; None where nothing was measured."""
    dates = sorted({day for spans in series.values() for day in spans})
    if not dates:
        return None
    first, last = dates[0], dates[-1]
    lines = tuple(
        Line(name, tuple(_spot(day, found, first, last, days) for day, found in sorted(spans.items())))
        for name, spans in series.items()
        if spans
    )
    said = []
    for line in lines:
        ends = [found for _, found in sorted(series[line.name].items())]
        before, now = ends[0].accuracy or 0.0, ends[-1].accuracy or 0.0
        said.append(f"{line.name}: {now:.2f}" if len(ends) == 1 else f"{line.name}: from {before:.2f} to {now:.2f}")
    sentence = f"Accuracy from {first} to {last}, {'; '.join(said)}."
    return Plot(lines, days, first, last, _y(floor), sentence)


def _spot(day: date, found: Agreement, first: date, last: date, days: int) -> Spot:
    share, interval = found.accuracy or 0.0, found.interval
    span = (last - first).days
    x = LEFT + (WIDTH - LEFT - RIGHT) * ((day - first).days / span if span else 0.5)
    when = f"{day}" if days == 1 else f"week of {day}"
    title = f"{when}: {found.right} of {found.measured} right, {share:.2f} ({interval.low:.2f} to {interval.high:.2f})"
    return Spot(round(x, 1), _y(share), _y(interval.low), _y(interval.high), title)


def _y(share: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share), 1)
