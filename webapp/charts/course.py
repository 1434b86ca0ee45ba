"""Chart first replies over time: the running share that was received well, and where checkpoints went live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import dateformat
from django.utils.translation import gettext as _

from evaluation.firsts import First, Moment
from webapp.charts.frame import Frame, Point, Ticks, evenly, joined

FRAME = Frame(480, 176, left=34, right=14, top=24, bottom=24)

APART = 30.0
"""How far from the one before a mark must stand to be named as well."""

BESIDE = 6.0
"""How far above and below the axis the dots of single conversations stand."""


@dataclass(frozen=True)
class Spot:
    """One first reply: where it stands in time, above where it was content, below where it was not."""

    x: float
    y: float
    is_said: bool
    title: str


@dataclass(frozen=True)
class Mark:
    """Where a checkpoint went live."""

    x: float
    name: str
    """Empty where there is no room for it."""
    title: str


@dataclass(frozen=True)
class Course:
    """The running mean over time."""

    line: str
    band: str
    spots: tuple[Spot, ...]
    marks: tuple[Mark, ...]
    first: datetime
    last: datetime
    sentence: str
    rows: tuple[Moment, ...]
    """The numbers themselves, the newest first."""
    frame: Frame = FRAME

    @property
    def grid(self) -> Ticks:
        return tuple((FRAME.up(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0))


def course(
    rows: Sequence[First], moments: Sequence[Moment], went_live: Sequence[tuple[datetime, int]], name: str
) -> Course | None:
    """The course of first replies; None before the second that is scored. `name` is what checkpoints are called
    before their number."""
    scored = [row for row in rows if row.score is not None]
    if len(scored) < 2:
        return None
    first, last = scored[0].at, scored[-1].at

    def x(at: datetime) -> float:
        span = (last - first).total_seconds()
        part = (at - first).total_seconds() / span if span else 0.5
        return FRAME.across(min(max(part, 0.0), 1.0))

    kept = evenly(len(scored))
    drawn = [moments[place] for place in kept]
    points = [Point(x(one.at), FRAME.up(one.share), "", FRAME.up(one.low), FRAME.up(one.high)) for one in drawn]
    edges = [*(f"{at.x:g} {at.high:g}" for at in points), *(f"{at.x:g} {at.low:g}" for at in reversed(points))]
    content, now = sum(row.score == 1 for row in scored), moments[-1]
    sentence = _(
        "First replies from %(first)s to %(last)s: %(content)s of %(scored)s were received well. Of the last "
        "%(number)s it was %(share)s, 95 %% interval %(low)s to %(high)s."
    ) % {
        "first": dateformat.format(first, _("j F Y")),
        "last": dateformat.format(last, _("j F Y")),
        "content": content,
        "scored": len(scored),
        "number": now.number,
        "share": f"{now.share:.0%}",
        "low": f"{now.low:.0%}",
        "high": f"{now.high:.0%}",
    }
    return Course(
        line=joined(points),
        band=f"M{' L'.join(edges)} Z",
        spots=tuple(_spot(scored[place], x(scored[place].at), name) for place in kept),
        marks=tuple(_marks([(x(at), at, number) for at, number in went_live if first <= at <= last], name)),
        first=first,
        last=last,
        sentence=sentence,
        rows=tuple(reversed(drawn)),
    )


def _marks(moves: Sequence[tuple[float, datetime, int]], name: str) -> list[Mark]:
    """Where checkpoints went live, the oldest first; one that stands close to the last named one keeps its title
    alone."""
    found, free = [], 0.0
    for x, at, number in moves:
        shown = f"@{number}" if x >= free else ""
        free = x + APART if shown else free
        words = {"checkpoint": f"{name}@{number}", "when": dateformat.format(at, _("j F Y, H:i"))}
        found.append(Mark(x, shown, _("%(checkpoint)s went live on %(when)s") % words))
    return found


def _spot(row: First, x: float, name: str) -> Spot:
    if row.is_said:
        said = (
            _("%(when)s, %(checkpoint)s: content, said so")
            if row.score == 1
            else _("%(when)s, %(checkpoint)s: a change was asked for, said so")
        )
    elif row.score == 1:
        said = _("%(when)s, %(checkpoint)s: content, read out of what followed")
    else:
        said = _("%(when)s, %(checkpoint)s: a change was asked for, read out of what followed")
    y = FRAME.top - BESIDE if row.score == 1 else FRAME.foot + BESIDE
    words = {"when": dateformat.format(row.at, _("j F Y, H:i")), "checkpoint": f"{name}@{row.checkpoint}"}
    return Spot(x, y, row.is_said, said % words)
