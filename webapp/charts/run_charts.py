"""Chart a run's figures over its updates: each chart says how it is read, and has its numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from training.monitoring import limits, series
from webapp.charts.figures import ABOUT, ADVANTAGES, HIDDEN, LENGTHS, About
from webapp.charts.frame import (
    MOST_POINTS,
    Line,
    Point,
    evenly,
    is_number,
    parted,
    percent,
    scale,
    short,
)
from webapp.charts.picture import FRAME, Axis, Cell, Chart, between, place_on

MOST_COLUMNS = 24
"""Updates that a strip shows side by side; of more, neighbours share a column."""

FAR = 4.0
"""A limit this many times above all that was measured is named beside the chart and not drawn: it would press the
line flat."""

BARS = 12

BATCH = "replies_"
"""How figures begin that say of the whole batch how many replies carry which signal."""
CARRIED = {
    "praised": gettext_noop("%(n)s praised"),
    "blamed": gettext_noop("%(n)s blamed"),
    "marked": gettext_noop("%(n)s marked"),
    "hinted": gettext_noop("%(n)s hinted"),
    "demonstrated": gettext_noop("%(n)s demonstrated"),
    "rewritten": gettext_noop("%(n)s rewritten"),
    "rehearsed": gettext_noop("%(n)s rehearsed"),
    "replayed": gettext_noop("%(n)s replayed"),
}
"""How many replies carry which signal, in words, and in this order: PostgreSQL keeps none."""


def charts(metrics: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any], lengths: Sequence[int] = ()) -> list[Chart]:
    """The charts of a run; figures that it has not are left out. `lengths` are its replies', in tokens."""
    drawn = [chart(about, metrics, recipe) for about in ABOUT]
    advantages = strip(metrics) or chart(ADVANTAGES, metrics, recipe)
    made = [*drawn[:4], advantages, *drawn[4:5], bars(lengths, recipe), *drawn[5:]]
    return [one for one in made if one is not None]


def others(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Figures of the first update that no chart shows."""
    shown = {name for about in (*ABOUT, ADVANTAGES) for name in about.names} | HIDDEN
    first = metrics[0] if metrics else {}
    return [name for name in first if is_number(first[name]) and name not in shown and not name.startswith(BATCH)]


def signals(metrics: Sequence[Mapping[str, Any]]) -> str:
    """What the replies of the batch carry, as a run's first update says it.

    >>> signals([{"replies_praised": 3, "replies_blamed": 0, "replies_hinted": 2, "loss": 0.5}])
    '3 praised, 2 hinted'
    >>> signals([{"replies_praised": 1, "attempts": 16, "steps": 70}])
    '1 praised, 16 attempts of 70 steps'
    """
    first = metrics[0] if metrics else {}
    kept = [(name, first.get(f"{BATCH}{name}")) for name in CARRIED]
    said = [_(CARRIED[name]) % {"n": f"{value:g}"} for name, value in kept if is_number(value) and value]
    if is_number(first.get("attempts")):
        counts = {"attempts": f"{first['attempts']:g}", "steps": f"{first.get('steps', 0):g}"}
        said.append(_("%(attempts)s attempts of %(steps)s steps") % counts)
    return ", ".join(said)


@dataclass(frozen=True)
class Trace:
    """One line's numbers, and where along the chart each stands; None: there is no number."""

    label: str
    places: Sequence[float]
    values: Sequence[float | None]
    sentence: str
    """What it shows, in words."""


def chart(about: About, metrics: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]) -> Chart | None:
    """Some figures over updates as lines; None where the run has none of them."""
    updates = [str(step.get("update", place)) for place, step in enumerate(metrics, 1)]
    columns = {
        _(label): [float(step[name]) if is_number(step.get(name)) else None for step in metrics]
        for name, label in about.names.items()
    }
    columns = {label: values for label, values in columns.items() if any(value is not None for value in values)}
    traces = []
    for label, values in columns.items():
        places = series.kept(values, MOST_POINTS // len(columns))
        traces.append(Trace(label, places, [values[place] for place in places], told(label, values)))
    ends: tuple[str, ...] = (place_on("update", "1"),)
    if len(metrics) != 1:
        ends = (place_on("update", updates[0]), updates[-1]) if metrics else ()
    limit = limits.line_of(about.key, recipe)
    return lined(
        about, traces, limit, along=(0, len(metrics) - 1), axis="update", names=dict(enumerate(updates)), ends=ends
    )


def lined(
    about: About,
    traces: Sequence[Trace],
    limit: float | None,
    *,
    along: tuple[float, float],
    axis: Axis,
    names: Mapping[float, str],
    ends: tuple[str, ...],
) -> Chart | None:
    """Lines on one scale, from the place `along[0]` on the left to `along[1]`; None without any. `axis` says what is
    counted along it, `names` what a place is called."""
    if not traces:
        return None
    known = [value for trace in traces for value in trace.values if value is not None]
    is_far = limit is not None and limit > FAR * max(known)
    low = min([*known, 0.0] if about.from_zero else known)
    high = max(known if limit is None or is_far else [*known, limit])
    if about.from_zero:
        high = max(high, 0.0)
    low, high, marks = scale(low, high)
    width = along[1] - along[0]

    def point(place: float, value: float) -> Point:
        x = FRAME.across((place - along[0]) / width if width else 0.5)
        return Point(x, FRAME.up(value, low, high), f"{place_on(axis, names[place])}: {short(value)}")

    lines = [
        Line(
            trace.label,
            parted(
                None if value is None else point(place, value)
                for place, value in zip(trace.places, trace.values, strict=True)
            ),
        )
        for trace in traces
    ]
    last = next(value for value in reversed(traces[0].values) if value is not None)
    said = ""
    if limit is not None:
        said = (_("limit %(at)s, far above") if is_far else _("limit %(at)s")) % {"at": short(limit)}
    tables = [dict(zip(trace.places, trace.values, strict=True)) for trace in traces]
    rows = sorted({place for table in tables for place in table})
    return Chart(
        about.key,
        _(about.title),
        _(about.reading),
        _(about.worry),
        short(last),
        " ".join(trace.sentence for trace in traces),
        (_("update") if axis == "update" else _("minute"), *(trace.label for trace in traces)),
        tuple(
            (names[place], *(cell(table.get(place)) for table in tables))
            for place in (rows[kept] for kept in evenly(len(rows)))
        ),
        lines=tuple(lines),
        grid=tuple((FRAME.up(mark, low, high), short(mark)) for mark in marks),
        limit=None if limit is None or is_far else FRAME.up(limit, low, high),
        limit_says=said,
        ends=ends,
    )


def strip(metrics: Sequence[Mapping[str, Any]]) -> Chart | None:
    """The advantages' histograms, a column an update, the darker the more tokens; None for a run that kept none."""
    kept = [
        (str(step.get("update", place)), step["advantage_histogram"])
        for place, step in enumerate(metrics, 1)
        if is_histogram(step.get("advantage_histogram"))
    ]
    if not kept:
        return None
    updates = [update for update, _ in kept]
    low = min(histogram["edges"][0] for _, histogram in kept)
    high = max(histogram["edges"][-1] for _, histogram in kept)
    columns = shared(kept)
    width = (FRAME.end - FRAME.left) / len(columns)
    cells = []
    for place, (name, edges, counts) in enumerate(columns):
        total, fullest = sum(counts) or 1, max(counts) or 1
        for (lower, upper), count in zip(pairwise(edges), counts, strict=True):
            if not count:
                continue
            top, bottom = FRAME.up(upper, low, high), FRAME.up(lower, low, high)
            # By the square root, so that a bin with a few tokens is still seen beside one with most of them.
            shade = round(0.12 + 0.88 * (count / fullest) ** 0.5, 2)
            title = _("%(name)s: %(share)s between %(low)s and %(high)s") % {
                "name": name, "share": percent(count, total), "low": short(lower), "high": short(upper)
            }  # fmt: skip
            x = FRAME.left + place * width
            cells.append(Cell(round(x, 1), top, round(width, 2), round(bottom - top, 1), shade, title))
    last = kept[-1][1]
    above, below = sides(last)
    total = sum(last["counts"]) or 1
    sentence = _(
        "Advantages of the last update's %(tokens)s tokens: %(above)s above 0, %(below)s below, %(rest)s about 0."
    ) % {
        "tokens": f"{total:g}",
        "above": percent(above, total),
        "below": percent(below, total),
        "rest": percent(total - above - below, total),
    }
    marks = [mark for mark in scale(low, high)[2] if low <= mark <= high]
    edges = last["edges"]
    return Chart(
        ADVANTAGES.key,
        _(ADVANTAGES.title),
        f"{_(ADVANTAGES.reading)} {_('The darker, the more tokens.')}",
        _(ADVANTAGES.worry),
        "",
        sentence,
        (_("update"), *(between(short(lower), short(upper)) for lower, upper in pairwise(edges))),
        tuple(
            (update, *(f"{count:g}" for count in histogram["counts"]))
            for update, histogram in (kept[place] for place in evenly(len(kept)))
            if histogram["edges"] == edges
        ),
        cells=tuple(cells),
        grid=tuple((FRAME.up(mark, low, high), short(mark)) for mark in marks),
        ends=(place_on("update", updates[0]), *([updates[-1]] if len(updates) > 1 else [])),
    )


def bars(lengths: Sequence[int], recipe: Mapping[str, Any]) -> Chart | None:
    """How often replies have which length. None without replies; those that were deleted have no length."""
    known = sorted(length for length in lengths if length > 0)
    if not known:
        return None
    low, high = known[0], known[-1]
    step = max(1, -(-(high - low + 1) // BARS))  # tokens a bar, so that BARS of them hold all
    edges = list(range(low, high + step + 1, step))
    counts = [sum(lower <= length < upper for length in known) for lower, upper in pairwise(edges)]
    counts = counts if counts[-1] else counts[:-1]
    width = (FRAME.end - FRAME.left) / len(counts)
    tallest = max(counts)
    cells, rows = [], []
    for place, count in enumerate(counts):
        lower, upper = edges[place], edges[place + 1] - 1
        span = f"{lower}" if lower == upper else between(f"{lower}", f"{upper}")
        y = FRAME.up(count, 0, tallest)
        x = round(FRAME.left + place * width + 1, 1)
        cells.append(
            Cell(
                x,
                y,
                round(width - 2, 1),
                round(FRAME.foot - y, 1),
                1.0,
                _("%(length)s tokens: %(n)s") % {"length": span, "n": count},
            )
        )
        rows.append((span, str(count)))
    middle = known[len(known) // 2] if len(known) % 2 else (known[len(known) // 2 - 1] + known[len(known) // 2]) / 2
    cut = limits.number(recipe.get("max_tokens"))
    over = 0 if cut is None else sum(length > cut for length in known)
    said = _("Reply lengths: from %(low)s to %(high)s tokens, half of them up to %(middle)s.")
    reading = _(LENGTHS.reading)
    if cut and over:
        learned = _("Of %(n)s of them only the first %(cut)s tokens are learned from.")
        reading = f"{reading} {learned % {'n': over, 'cut': f'{cut:g}'}}"
    return Chart(
        LENGTHS.key,
        _(LENGTHS.title),
        reading,
        _(LENGTHS.worry),
        _("%(n)s in the middle") % {"n": short(middle)},
        said % {"low": low, "high": high, "middle": short(middle)},
        (_("tokens"), _("replies")),
        tuple(rows),
        cells=tuple(cells),
        grid=tuple((FRAME.up(mark, 0, tallest), short(mark)) for mark in {0, tallest}),
        ends=(_("%(n)s tokens") % {"n": low}, *([str(high)] if high > low else [])),
    )


def sides(histogram: Mapping[str, Any]) -> tuple[float, float]:
    """How many tokens lie in bins wholly above 0, and wholly below.

    >>> sides({"edges": [-1, -0.5, 0.5, 1], "counts": [2, 5, 3]})
    (3, 2)
    """
    above = below = 0
    for (lower, upper), count in zip(pairwise(histogram["edges"]), histogram["counts"], strict=True):
        above += count if lower >= 0 else 0
        below += count if upper <= 0 else 0
    return above, below


def shared(
    kept: Sequence[tuple[str, Mapping[str, Any]]],
) -> list[tuple[str, Sequence[float], list[float]]]:
    """Columns of a strip as (name, edges, counts), neighbours with the same edges put together where there are many."""
    size = -(-len(kept) // MOST_COLUMNS)
    columns = []
    for first in range(0, len(kept), size):
        some = [one for one in kept[first : first + size] if one[1]["edges"] == kept[first][1]["edges"]]
        name = place_on("update", some[0][0])
        if len(some) > 1:
            name = _("updates %(first)s to %(last)s") % {"first": some[0][0], "last": some[-1][0]}
        counts = [sum(column) for column in zip(*(one[1]["counts"] for one in some), strict=True)]
        columns.append((name, some[0][1]["edges"], counts))
    return columns


def told(label: str, values: Sequence[float | None]) -> str:
    """A line in words.

    >>> told("loss", [0.5, None, 0.4])
    'loss: from 0.5 to 0.4 in 3 updates, between 0.4 and 0.5; 1 update has no number.'
    """
    known = [value for value in values if value is not None]
    if len(values) == 1:
        return _("%(name)s: %(value)s in its one update.") % {"name": label, "value": short(known[0])}
    lost = len(values) - len(known)
    said = _("%(name)s: from %(first)s to %(last)s in %(updates)s updates, between %(low)s and %(high)s.")
    if lost:
        said = ngettext(
            "%(name)s: from %(first)s to %(last)s in %(updates)s updates, between %(low)s and %(high)s; %(lost)s "
            "update has no number.",
            "%(name)s: from %(first)s to %(last)s in %(updates)s updates, between %(low)s and %(high)s; %(lost)s "
            "updates have no number.",
            lost,
        )
    return said % {
        "name": label,
        "first": short(known[0]),
        "last": short(known[-1]),
        "updates": len(values),
        "low": short(min(known)),
        "high": short(max(known)),
        "lost": lost,
    }


def cell(value: float | None) -> str:
    return "–" if value is None else short(value)


def is_histogram(value: object) -> bool:
    """True for {"edges": n + 1 rising numbers, "counts": n numbers}."""
    if not isinstance(value, Mapping):
        return False
    edges, counts = value.get("edges"), value.get("counts")
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) != len(counts) + 1 or not counts:
        return False
    return all(map(is_number, (*edges, *counts))) and all(one < two for one, two in pairwise(edges))
