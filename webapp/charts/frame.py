"""The frame of a chart: numbers to places, round marks, labels, and the points that stand in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, isfinite, log10

from django.utils.translation import gettext as _

MOST_POINTS = 230
"""Points of all lines of a chart together: of more, each line keeps its lowest and highest of every stretch."""

MOST_ROWS = 40
"""Rows of its table, evenly chosen ones and the last: a page of many charts stays light."""

Ticks = tuple[tuple[float, str], ...]
"""Where lines stand, and what is written beside each."""


@dataclass(frozen=True)
class Frame:
    """A picture's size and margins, in units of its view box; (0, 0) is at the top left."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float

    @property
    def end(self) -> float:
        """The right edge of what is drawn."""
        return self.width - self.right

    @property
    def foot(self) -> float:
        """The lower edge of what is drawn."""
        return self.height - self.bottom

    @property
    def middle(self) -> float:
        return (self.left + self.end) / 2

    def across(self, part: float) -> float:
        """How far to the right a part of the width, 0 to 1, stands.

        >>> Frame(340, 132, 46, 10, 8, 20).across(0.5)
        188.0
        """
        return round(self.left + (self.end - self.left) * part, 1)

    def along(self, place: int, of: int) -> float:
        """Where one of so many stands that are set out evenly; one alone in the middle."""
        return self.across(place / (of - 1) if of > 1 else 0.5)

    def up(self, value: float, low: float = 0.0, high: float = 1.0) -> float:
        """How far down a value stands on an axis from `low` at the foot to `high` at the top.

        >>> Frame(340, 132, 46, 10, 8, 20).up(0.25), Frame(340, 132, 46, 10, 8, 20).up(3.0, 3.0, 3.0)
        (86.0, 60.0)
        """
        part = (value - low) / (high - low) if high > low else 0.5
        return round(self.foot - (self.foot - self.top) * part, 1)


@dataclass(frozen=True)
class Point:
    """A place, what it says under the pointer, and the ends of its interval where it has one."""

    x: float
    y: float
    title: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One series; parted where a number is missing."""

    label: str
    segments: tuple[tuple[Point, ...], ...]

    @property
    def path(self) -> str:
        return " ".join("M" + " L".join(f"{p.x:g} {p.y:g}" for p in segment) for segment in self.segments)

    @property
    def joined(self) -> str:
        """All of it, as a polyline's points."""
        return joined(self.points)

    @property
    def points(self) -> list[Point]:
        return [point for segment in self.segments for point in segment]


def joined(points: Iterable[Point]) -> str:
    """A polyline's points.

    >>> joined([Point(1.0, 2.5), Point(3.0, 4.0)])
    '1,2.5 3,4'
    """
    return " ".join(f"{point.x:g},{point.y:g}" for point in points)


def parted(points: Iterable[Point | None]) -> tuple[tuple[Point, ...], ...]:
    """Points in runs without a gap."""
    segments: list[list[Point]] = [[]]
    for point in points:
        if point is not None:
            segments[-1].append(point)
        elif segments[-1]:
            segments.append([])
    return tuple(tuple(segment) for segment in segments if segment)


def evenly(number: int, most: int = MOST_ROWS) -> list[int]:
    """The places of `number` that are shown, the first and the last among them.

    >>> evenly(3), evenly(10, most=4), len(evenly(1001)), evenly(1001)[-1]
    ([0, 1, 2], [0, 3, 6, 9], 40, 1000)
    """
    if number <= most:
        return list(range(number))
    return [round(place * (number - 1) / (most - 1)) for place in range(most)]


def scale(low: float, high: float) -> tuple[float, float, list[float]]:
    """Round ends for an axis that holds both, and the marks on it.

    >>> scale(0.0, 0.83)
    (0.0, 1.0, [0.0, 0.5, 1.0])
    >>> scale(2.0, 2.0)
    (1.0, 3.0, [1.0, 2.0, 3.0])
    """
    if high <= low:
        pad = abs(low) / 2 or 1.0
        low, high = low - pad, high + pad
    rough = (high - low) / 3
    power = 10.0 ** floor(log10(rough))
    step = next(nice * power for nice in (1, 2, 5, 10) if nice * power >= rough * (1 - 1e-9))
    first = floor(low / step + 1e-9)
    last = -floor(-high / step + 1e-9)
    marks = [round(place * step, 12) for place in range(first, last + 1)]
    return marks[0], marks[-1], marks


def quarters(low: float = 0.0, high: float = 1.0) -> list[float]:
    """Five marks from end to end, for shares.

    >>> quarters(), quarters(0.5)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.5, 0.625, 0.75, 0.875, 1.0])
    """
    return [low + (high - low) * n / 4 for n in range(5)]


def short(value: float) -> str:
    """A number as labels have it.

    >>> short(0.123456), short(-2), short(0.000012345), short(20480.0)
    ('0.1235', '−2', '1.23e−05', '20480')
    """
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}".replace("-", "−")
    digits = 3 if value and abs(value) < 1e-3 else 4
    return f"{value:.{digits}g}".replace("-", "−")


def percent(count: float, total: float) -> str:
    """A share as titles have it.

    >>> percent(1, 3), percent(1, 1000), percent(0, 5)
    ('33 %', 'under 1 %', '0 %')
    """
    found = 100 * count / total
    return _("under 1 %") if 0 < found < 1 else f"{found:.0f} %"


def is_number(value: object) -> bool:
    """True for what can be drawn."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)
