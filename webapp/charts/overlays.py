"""Lay the figures of any runs over one another: as pictures, and as numbers for the plots that a script draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.utils.translation import gettext as _

from training.models import Run
from training.monitoring import limits, series
from training.monitoring.series import Series
from webapp.charts.figures import ABOUT, ADVANTAGES, USAGE, About
from webapp.charts.frame import MOST_POINTS, short
from webapp.charts.picture import Axis, Chart, place_on
from webapp.charts.run_charts import Trace, lined

MOST_RUNS = 12
"""Runs that are laid over one another: as many lines as differ plainly."""

By = Literal["step", "time"]

MOST_SENT = 1200
"""Points of a chart that are sent, all its lines together."""

LEAD = {"advantages": "advantage_mean"}
"""The figure that stands for a chart where several runs share it; else its first."""


@dataclass(frozen=True)
class OverlayLine:
    """One figure of one run. `tone` says which line's colour and dash it has, from 1."""

    run: int
    label: str
    tone: int
    series: Series


@dataclass(frozen=True)
class Overlay:
    """One chart of several runs. `by`: what is counted along it."""

    about: About
    by: By
    lines: tuple[OverlayLine, ...]
    limit: float | None
    """None where there is none, or the runs' recipes set different ones."""

    @property
    def picture(self) -> Chart | None:
        """The chart as a picture."""
        traces = [_trace(line, self.by, MOST_POINTS // len(self.lines)) for line in self.lines]
        ends = [place for trace in traces for place in trace.places]
        low, high = min(ends), max(ends)
        axis: Axis = "update" if self.by == "step" else "minute"
        names = {place: short(place) for place in ends}
        first = place_on(axis, short(low))
        edges = (first,) if low == high else (first, short(high))
        return lined(self.about, traces, self.limit, along=(low, high), axis=axis, names=names, ends=edges)

    @property
    def told(self) -> dict[str, Any]:
        """The chart as JSON: seconds, updates and values of each line agree in length."""
        return {
            "key": self.about.key,
            "by": self.by,
            "limit": self.limit,
            "from_zero": self.about.from_zero,
            "lines": [
                {
                    "run": line.run,
                    "label": line.label,
                    "tone": line.tone,
                    "steps": line.series.steps,
                    "times": line.series.times,
                    "values": line.series.values,
                }
                for line in self.lines
            ],
        }


def _trace(line: OverlayLine, by: By, most: int) -> Trace:
    """A line of the picture in at most so many points; of several values at one place the last stays."""
    few = line.series.bounded(most)
    places = few.steps if by == "step" else tuple(round(time / 60, 2) for time in few.times)
    at = dict(zip(places, few.values, strict=True))
    known = [value for value in line.series.values if value is not None]
    said = _("%(name)s: from %(first)s to %(last)s, between %(low)s and %(high)s.") % {
        "name": line.label,
        "first": short(known[0]),
        "last": short(known[-1]),
        "low": short(min(known)),
        "high": short(max(known)),
    }
    return Trace(line.label, list(at), list(at.values()), said)


def overlays(runs: Sequence[Run], by: By) -> list[Overlay]:
    """The charts of these runs, in the order of a run's page; figures that none of them has are left out. What a run
    takes of the machine is drawn over time whatever `by` says: it goes on while no update ends."""
    made = []
    for about in (*ABOUT[:4], ADVANTAGES, *ABOUT[4:], *USAGE):
        is_usage = about in USAGE
        found = list(_lines(about, runs, is_usage=is_usage))
        if found:
            drawn_at = {limits.line_of(about.key, run.recipe) for run in runs}
            limit = drawn_at.pop() if len(drawn_at) == 1 else None
            most = min(series.MOST_POINTS, MOST_SENT // len(found))
            lines = tuple(replace(line, series=line.series.bounded(most)) for line in found)
            made.append(Overlay(about, "time" if is_usage else by, lines, limit))
    return made


def of_machine(run: Run) -> list[Chart]:
    """What a run took of the machine over time, as pictures."""
    drawn = (Overlay(about, "time", tuple(_lines(about, [run], is_usage=True)), None) for about in USAGE)
    return [picture for chart in drawn if chart.lines and (picture := chart.picture) is not None]


def _lines(about: About, runs: Sequence[Run], *, is_usage: bool) -> list[OverlayLine]:
    alone = len(runs) == 1
    names = about.names if alone else [LEAD.get(about.key, next(iter(about.names)))]
    found = []
    for place, run in enumerate(runs):
        for number, name in enumerate(names):
            line = series.of_usage(run.usage, name) if is_usage else series.of_updates(run.metrics, name)
            if line is not None:
                label = _(about.names[name]) if alone else str(run)
                found.append(OverlayLine(run.pk, label, (number if alone else place) + 1, line))
    return found
