"""Chart a judge's accuracy over time, the reliability of its confidence, and precision against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.translation import gettext as _

from core.statistics import wilson
from judge.calibration import thresholds, verdict_figures
from judge.calibration.agreement import Agreement
from judge.calibration.verdict_figures import Verdict
from webapp.charts.frame import Frame, Line, Point, Ticks, joined, quarters

FRAME = Frame(640, 150, left=34, right=14, top=8, bottom=22)
SQUARE = Frame(240, 240, left=34, right=10, top=10, bottom=34)

MOST_DOTS = 80
"""Thresholds that are drawn; of more, every so many-th and the last."""


@dataclass(frozen=True)
class Accuracy:
    """What each yardstick says over time; a point's interval is Wilson's."""

    lines: tuple[Line, ...]
    days: int
    """How many days a point stands for."""
    first: date
    last: date
    floor: float
    """Where the floor is drawn."""
    sentence: str
    frame: Frame = FRAME

    @property
    def grid(self) -> Ticks:
        return tuple((FRAME.up(share), f"{share:g}") for share in quarters())


def over_time(series: Mapping[str, Mapping[date, Agreement]], *, days: int, floor: float) -> Accuracy | None:
    """Each yardstick's agreements over time; None where nothing was measured."""
    dates = sorted({day for spans in series.values() for day in spans})
    if not dates:
        return None
    first, last = dates[0], dates[-1]
    lines, said = [], []
    for name, spans in series.items():
        found = sorted(spans.items())
        if not found:
            continue
        lines.append(Line(name, (tuple(_point(day, one, first, last, days) for day, one in found),)))
        before, now = (one.accuracy or 0.0 for _, one in (found[0], found[-1]))
        told = _("%(name)s: %(now)s") if len(found) == 1 else _("%(name)s: from %(before)s to %(now)s")
        said.append(told % {"name": name, "before": f"{before:.2f}", "now": f"{now:.2f}"})
    sentence = _("Accuracy from %(first)s to %(last)s, %(each)s.")
    sentence %= {"first": first, "last": last, "each": "; ".join(said)}
    return Accuracy(tuple(lines), days, first, last, FRAME.up(floor), sentence)


def _point(day: date, found: Agreement, first: date, last: date, days: int) -> Point:
    share, (low, high) = found.accuracy or 0.0, found.interval
    span = (last - first).days
    said = _("%(day)s: %(right)s of %(measured)s right, %(share)s (%(low)s to %(high)s)")
    if days != 1:
        said = _("week of %(day)s: %(right)s of %(measured)s right, %(share)s (%(low)s to %(high)s)")
    title = said % {
        "day": day,
        "right": found.right,
        "measured": found.measured,
        "share": f"{share:.2f}",
        "low": f"{low:.2f}",
        "high": f"{high:.2f}",
    }
    x = FRAME.across((day - first).days / span if span else 0.5)
    return Point(x, FRAME.up(share), title, FRAME.up(low), FRAME.up(high))


@dataclass(frozen=True)
class Square:
    """A plot whose axes are shares: 0 to 1 across, `start` to 1 up."""

    dots: tuple[Point, ...]
    across: str
    """What is counted across."""
    sentence: str
    rule: tuple[Point, Point]
    """The ends of the dashed line: how it should be."""
    tone: int
    """Which series' colour the dots have."""
    start: float = 0.0
    mark: Point | None = None
    """What holds now."""
    frame: Frame = SQUARE

    @property
    def points(self) -> str:
        return joined(self.dots)

    @property
    def grid(self) -> Ticks:
        return tuple((SQUARE.up(share, self.start), f"{share:g}") for share in quarters(self.start))

    @property
    def columns(self) -> Ticks:
        return tuple((SQUARE.across(share), f"{share:g}") for share in quarters())


def reliability(verdicts: Sequence[Verdict]) -> Square | None:
    """Confidence across, the share that is right up: on the diagonal a confidence of 0.9 means 0.9."""
    bins = verdict_figures.reliability(verdicts)
    if not bins:
        return None
    dots = []
    for one in bins:
        low, high = wilson(one.right, one.count)
        title = _("confidence %(confidence)s: %(right)s of %(count)s right, %(share)s") % {
            "confidence": f"{one.confidence:.2f}", "right": one.right, "count": one.count, "share": f"{one.share:.2f}"
        }  # fmt: skip
        x, y = SQUARE.across(one.confidence), SQUARE.up(one.share)
        dots.append(Point(x, y, title, SQUARE.up(low), SQUARE.up(high)))
    error = verdict_figures.calibration_error(verdicts) or 0.0
    sentence = _("Confidence and the share that is right are %(error)s apart on average, on %(n)s follow-ups.")
    sentence %= {"error": f"{error:.3f}", "n": len(verdicts)}
    diagonal = Point(SQUARE.left, SQUARE.foot), Point(SQUARE.end, SQUARE.top)
    return Square(tuple(dots), _("confidence"), sentence, diagonal, tone=1)


def coverage(verdicts: Sequence[Verdict], least: float | None) -> Square | None:
    """Coverage across, precision up: what each threshold would do, and what the one that holds does."""
    points = [one for one in thresholds.curve(verdicts) if one.given >= thresholds.LEAST / 3]
    if not points:
        return None
    start = 0.5 if min(one.precision for one in points) >= 0.5 else 0.0
    step = max(1, len(points) // MOST_DOTS)
    shown = [*points[::step], *(points[-1:] if (len(points) - 1) % step else [])]
    dots = tuple(
        Point(
            SQUARE.across(one.coverage),
            SQUARE.up(one.precision, start),
            _("from %(threshold)s on: %(coverage)s decided, %(precision)s of it right") % worded(one),
        )
        for one in shown
    )
    now = thresholds.point_at(verdicts, least)
    mark, sentence = None, _("No threshold is precise enough: it decides nothing.")
    if now is not None and now.given:
        sentence = _("From %(threshold)s on it decides %(coverage)s of all, and %(precision)s of that is right.")
        sentence %= worded(now) | {"threshold": f"{least or 0:.2f}"}
        mark = Point(SQUARE.across(now.coverage), SQUARE.up(max(now.precision, start), start), sentence)
    asked = SQUARE.up(thresholds.PRECISION, start)
    rule = Point(SQUARE.left, asked), Point(SQUARE.end, asked)
    return Square(dots, _("share decided"), sentence, rule, 2, start, mark)


def worded(point: thresholds.Point) -> dict[str, str]:
    """What a threshold would do, as sentences name it."""
    return {
        "threshold": f"{point.threshold:.2f}",
        "coverage": f"{point.coverage:.0%}",
        "precision": f"{point.precision:.2f}",
    }
