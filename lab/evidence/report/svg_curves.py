"""Curves with interval bands, laid out for SVG: numbers to places on a sheet. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.statistics import Interval

WIDTH, HEIGHT = 352.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 32.0, 120.0, 12.0, 36.0
LABEL = 14.0
"""The least between two labels, middle to middle."""


@dataclass(frozen=True)
class Spot:
    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Line:
    """One arm: a line with its band, its spots, and its name at the end."""

    name: str
    tone: int
    """Which colour and which mark, from 0 on; the same arm has the same in every chart."""
    spots: tuple[Spot, ...]
    band: str
    """The polygon between the lower and the upper ends of the intervals."""
    label_y: float
    end: str
    """The last value, as written beside the name."""
    is_flat: bool
    """It never learns, so it is asked once and stays."""

    @property
    def points(self) -> str:
        return " ".join(f"{spot.x},{spot.y}" for spot in self.spots)


@dataclass(frozen=True)
class Chart:
    key: str
    title: str
    lines: tuple[Line, ...]
    across: tuple[tuple[float, str], ...]
    """Lines across: where, and what stands there."""
    marks: tuple[tuple[float, str], ...]
    """Updates: where, and how many."""
    sentence: str
    """The chart in words."""


def chart(
    key: str, title: str, curves: Mapping[str, Mapping[int, Interval]], flat: Sequence[str], marks: Sequence[int]
) -> Chart | None:
    """Each arm's means by update; `flat` arms never learn. None where nothing was measured."""
    drawn = {name: curve for name, curve in curves.items() if curve}
    if not drawn:
        return None
    most = max(*marks, 1)
    top = max(found.high for curve in drawn.values() for found in curve.values())
    grid = (0.0, 0.25, 0.5, 0.75, 1.0) if top > 0.5 else (0.0, 0.125, 0.25, 0.375, 0.5)
    high = grid[-1]
    ends = {name: _y(curve[max(curve)].mean, high) for name, curve in drawn.items()}
    label_ys = spread(ends, LABEL, TOP + 4, HEIGHT - BOTTOM)
    lines = []
    for tone, name in enumerate(curves):
        if name not in drawn:
            continue
        curve = dict(sorted(drawn[name].items()))
        is_flat = name in flat
        if is_flat:
            only = curve[min(curve)]
            curve = {0: only, most: only}
        spots = tuple(Spot(_x(at, most), _y(found.mean, high), _said(name, at, found)) for at, found in curve.items())
        upper = [f"{_x(at, most)},{_y(found.high, high)}" for at, found in curve.items()]
        lower = [f"{_x(at, most)},{_y(found.low, high)}" for at, found in reversed(curve.items())]
        end = f"{curve[max(curve)].mean:.2f}"
        lines.append(Line(name, tone, spots, " ".join(upper + lower), label_ys[name], end, is_flat))
    said = "; ".join(_grown(line, drawn[line.name]) for line in lines)
    return Chart(
        key,
        title,
        tuple(lines),
        tuple((_y(value, high), f"{value:g}") for value in grid),
        tuple((_x(mark, most), str(mark)) for mark in marks),
        f"{title}. {said}.",
    )


def spread(places: Mapping[str, float], apart: float, low: float, high: float) -> dict[str, float]:
    """Places moved as little as need be until neighbours stand `apart`, in the same order, from `low` on, and up to
    `high` where there is room for all.

    >>> spread({"a": 10.0, "b": 12.0, "c": 50.0}, 10, 0, 100)
    {'a': 6.0, 'b': 16.0, 'c': 50.0}
    """
    order = sorted(places, key=lambda name: places[name])
    groups: list[tuple[list[str], float]] = []  # names that stand close, and where the first of them stands
    for name in order:
        names, start = [name], places[name]
        while True:
            start = min(max(start, low), max(high - apart * (len(names) - 1), low))
            if not groups or groups[-1][1] + apart * len(groups[-1][0]) <= start:
                break
            before, _ = groups.pop()
            names = before + names
            start = sum(places[one] - apart * at for at, one in enumerate(names)) / len(names)
        groups.append((names, start))
    found = {one: start + apart * at for names, start in groups for at, one in enumerate(names)}
    return {name: round(found[name], 1) for name in places}


def _x(update: int, most: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * update / most, 1)


def _y(value: float, high: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(max(value / high, 0.0), 1.0)), 1)


def _said(name: str, update: int, found: Interval) -> str:
    return f"{name} after {update} updates: {found.mean:.2f} (95 % {found.low:.2f} to {found.high:.2f})"


def _grown(line: Line, curve: Mapping[int, Interval]) -> str:
    first, last = curve[min(curve)].mean, curve[max(curve)].mean
    return f"{line.name} {last:.2f}" if len(curve) == 1 else f"{line.name} from {first:.2f} to {last:.2f}"
