"""A run's chart as a picture: its lines or cells in their frame, its sentence, and its numbers as a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from django.utils.translation import gettext as _

from webapp.charts.frame import Frame, Line, Ticks

FRAME = Frame(340, 132, left=46, right=10, top=8, bottom=20)

CROWDED = 48
"""More points than these, of all lines together, would hide their lines: then only the last of each is a dot."""

Axis = Literal["update", "minute"]
"""What is counted along a chart."""


def place_on(axis: Axis, place: str) -> str:
    """
    >>> place_on("update", "3"), place_on("minute", "0.5")
    ('update 3', 'minute 0.5')
    """
    said = _("update %(n)s") if axis == "update" else _("minute %(n)s")
    return said % {"n": place}


def between(low: str, high: str) -> str:
    """
    >>> between("1", "3")
    '1 to 3'
    """
    return _("%(low)s to %(high)s") % {"low": low, "high": high}


@dataclass(frozen=True)
class Cell:
    """A rectangle: a bar, or one bin of one update, the darker the fuller."""

    x: float
    y: float
    width: float
    height: float
    shade: float
    title: str


@dataclass(frozen=True)
class Chart:
    key: str
    title: str
    reading: str
    worry: str
    figure: str
    """The one number to know of it: where it stands now."""
    sentence: str
    """What the picture shows, for those who do not see it."""
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The numbers themselves, as a table."""
    lines: tuple[Line, ...] = ()
    cells: tuple[Cell, ...] = ()
    grid: Ticks = ()
    """Lines across: their height and number."""
    limit: float | None = None
    limit_says: str = ""
    ends: tuple[str, ...] = field(default=())
    """What stands under the left and the right end."""
    frame: Frame = FRAME

    @property
    def is_drawn(self) -> bool:
        """One number is said and not drawn: a point has no direction."""
        return bool(self.cells) or any(len(line.points) > 1 for line in self.lines)

    @property
    def is_crowded(self) -> bool:
        return sum(len(line.points) for line in self.lines) > CROWDED
