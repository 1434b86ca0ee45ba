"""What was measured of a judge, drawn on the server: accuracy over time, how far its confidence holds, and precision
against coverage; each with the sentence that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from core.statistics import wilson
from judge import calibrating
from judge.agreement import Agreement
from judge.calibrating import Verdict

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


SIDE = 240.0
"""Of the two square plots."""
EDGE, MARGIN = 34.0, 10.0


@dataclass(frozen=True)
class Dot:
    """A point of a square plot, with what it says; `low` and `high` are the ends of its interval."""

    x: float
    y: float
    title: str
    low: float = 0.0
    high: float = 0.0


@dataclass(frozen=True)
class Square:
    """A plot whose axes are shares from `start` to 1."""

    dots: tuple[Dot, ...]
    sentence: str
    start: float = 0.0
    mark: Dot | None = None
    """What holds now."""
    floor: float | None = None
    """A line across."""

    @property
    def points(self) -> str:
        return " ".join(f"{dot.x},{dot.y}" for dot in self.dots)

    @property
    def ticks(self) -> list[tuple[float, float, str, str]]:
        """(x, y, the x axis's label, the y axis's), five of each."""
        shares = [n / 4 for n in range(5)]
        return [
            (across(share), up(self.start + share * (1 - self.start), self.start), f"{share:g}", said)
            for share, said in zip(shares, [f"{self.start + one * (1 - self.start):g}" for one in shares], strict=True)
        ]

    @property
    def diagonal(self) -> tuple[float, float, float, float]:
        """Where confidence is the share that is right."""
        return across(0), up(0, self.start), across(1), up(1, self.start)


def across(share: float) -> float:
    return round(EDGE + (SIDE - EDGE - MARGIN) * share, 1)


def up(share: float, start: float = 0.0) -> float:
    return round(MARGIN + (SIDE - EDGE - MARGIN) * (1 - (share - start) / (1 - start)), 1)


def reliability_plot(verdicts: Sequence[Verdict]) -> Square | None:
    """Confidence across, the share that is right up: on the diagonal a confidence of 0.9 means 0.9."""
    bins = calibrating.reliability(verdicts)
    if not bins:
        return None
    dots = []
    for one in bins:
        interval = wilson(one.right, one.count)
        title = f"confidence {one.confidence:.2f}: {one.right} of {one.count} right, {one.share:.2f}"
        dots.append(Dot(across(one.confidence), up(one.share), title, up(interval.low), up(interval.high)))
    error = calibrating.calibration_error(verdicts) or 0.0
    sentence = (
        f"Confidence and the share that is right are {error:.3f} apart on average, on {len(verdicts)} follow-ups."
    )
    return Square(tuple(dots), sentence)


def coverage_plot(verdicts: Sequence[Verdict], least: float | None) -> Square | None:
    """Coverage across, precision up: what each threshold would do, and what the one that holds does."""
    points = [one for one in calibrating.curve(verdicts) if one.given >= calibrating.LEAST / 3]
    if not points:
        return None
    start = 0.5 if min(one.precision for one in points) >= 0.5 else 0.0
    step = max(1, len(points) // 80)
    shown = [*points[::step], *(points[-1:] if (len(points) - 1) % step else [])]
    dots = tuple(
        Dot(
            across(one.coverage),
            up(one.precision, start),
            f"from {one.threshold:.2f} on: {one.coverage:.0%} decided, {one.precision:.2f} of it right",
        )
        for one in shown
    )
    now = calibrating.point_at(verdicts, least)
    mark, sentence = None, "No threshold is precise enough: it decides nothing."
    if now is not None and now.given:
        said = (
            f"From {least or 0:.2f} on it decides {now.coverage:.0%} of all, and {now.precision:.2f} of that is right."
        )
        mark, sentence = Dot(across(now.coverage), up(max(now.precision, start), start), said), said
    return Square(dots, sentence, start, mark, up(calibrating.PRECISION, start))
