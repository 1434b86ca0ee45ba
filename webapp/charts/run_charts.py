"""Chart a run's figures over its updates: each chart says how it is read, and has its numbers beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from training.monitoring import limits, series
from webapp.charts.figures import ABOUT, ADVANTAGES, HIDDEN, LENGTHS, About
from webapp.charts.frame import (
    MOST_POINTS,
    Frame,
    Line,
    Point,
    Ticks,
    evenly,
    is_number,
    parted,
    percent,
    scale,
    short,
    span,
)

FRAME = Frame(340, 132, left=46, right=10, top=8, bottom=20)

MOST_COLUMNS = 24
"""Updates that a strip shows side by side; of more, neighbours share a column."""

FAR = 4.0
"""A limit this many times above all that was measured is named beside the chart and not drawn: it would press the
line flat."""

CROWDED = 48
"""More points than these, of all lines together, would hide their lines: then only the last of each is a dot."""

BARS = 12

BATCH = "replies_"
"""How figures begin that say of the whole batch how many replies carry which signal."""
CARRIED = ("praised", "blamed", "marked", "hinted", "demonstrated", "rewritten", "rehearsed", "replayed")
"""In this order: PostgreSQL keeps none."""


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
    said = [f"{value:g} {name}" for name, value in kept if is_number(value) and value]
    if is_number(first.get("attempts")):
        said.append(f"{first['attempts']:g} attempts of {first.get('steps', 0):g} steps")
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
        label: [float(step[name]) if is_number(step.get(name)) else None for step in metrics]
        for name, label in about.names.items()
    }
    columns = {label: values for label, values in columns.items() if any(value is not None for value in values)}
    traces = []
    for label, values in columns.items():
        places = series.kept(values, MOST_POINTS // len(columns))
        traces.append(Trace(label, places, [values[place] for place in places], told(label, values)))
    ends = ("update 1",) if len(metrics) == 1 else (f"update {updates[0]}", updates[-1]) if metrics else ()
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
    axis: str,
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
        return Point(x, FRAME.up(value, low, high), f"{axis} {names[place]}: {short(value)}")

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
    said = "" if limit is None else f"limit {short(limit)}" + (", far above" if is_far else "")
    tables = [dict(zip(trace.places, trace.values, strict=True)) for trace in traces]
    rows = sorted({place for table in tables for place in table})
    return Chart(
        about.key,
        about.title,
        about.reading,
        about.worry,
        short(last),
        " ".join(trace.sentence for trace in traces),
        (axis, *(trace.label for trace in traces)),
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
            title = f"{name}: {percent(count, total)} between {short(lower)} and {short(upper)}"
            x = FRAME.left + place * width
            cells.append(Cell(round(x, 1), top, round(width, 2), round(bottom - top, 1), shade, title))
    last = kept[-1][1]
    above, below = sides(last)
    total = sum(last["counts"]) or 1
    sentence = (
        f"Advantages of the last update's {total:g} tokens: {percent(above, total)} above 0, {percent(below, total)} "
        f"below, {percent(total - above - below, total)} about 0."
    )
    marks = [mark for mark in scale(low, high)[2] if low <= mark <= high]
    edges = last["edges"]
    return Chart(
        ADVANTAGES.key,
        ADVANTAGES.title,
        ADVANTAGES.reading + " The darker, the more tokens.",
        ADVANTAGES.worry,
        "",
        sentence,
        ("update", *(f"{short(lower)} to {short(upper)}" for lower, upper in pairwise(edges))),
        tuple(
            (update, *(f"{count:g}" for count in histogram["counts"]))
            for update, histogram in (kept[place] for place in evenly(len(kept)))
            if histogram["edges"] == edges
        ),
        cells=tuple(cells),
        grid=tuple((FRAME.up(mark, low, high), short(mark)) for mark in marks),
        ends=(f"update {updates[0]}", *([updates[-1]] if len(updates) > 1 else [])),
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
        span = f"{lower}" if lower == upper else f"{lower} to {upper}"
        y = FRAME.up(count, 0, tallest)
        x = round(FRAME.left + place * width + 1, 1)
        cells.append(Cell(x, y, round(width - 2, 1), round(FRAME.foot - y, 1), 1.0, f"{span} tokens: {count}"))
        rows.append((span, str(count)))
    middle = known[len(known) // 2] if len(known) % 2 else (known[len(known) // 2 - 1] + known[len(known) // 2]) / 2
    cut = limits.number(recipe.get("max_tokens"))
    over = 0 if cut is None else sum(length > cut for length in known)
    said = f"Reply lengths: from {low} to {high} tokens, half of them up to {short(middle)}."
    return Chart(
        LENGTHS.key,
        LENGTHS.title,
        LENGTHS.reading
        + (f" Of {over} of them only the first {cut:g} tokens are learned from." if cut and over else ""),
        LENGTHS.worry,
        f"{short(middle)} in the middle",
        said,
        ("tokens", "replies"),
        tuple(rows),
        cells=tuple(cells),
        grid=tuple((FRAME.up(mark, 0, tallest), short(mark)) for mark in {0, tallest}),
        ends=(f"{low} tokens", *([str(high)] if high > low else [])),
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
        name = f"update {some[0][0]}" if len(some) == 1 else f"updates {some[0][0]} to {some[-1][0]}"
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
        return f"{label}: {short(known[0])} in its one update."
    lost = len(values) - len(known)
    gone = f"; {lost} update{' has' if lost == 1 else 's have'} no number" if lost else ""
    return f"{label}: from {short(known[0])} to {short(known[-1])} in {len(values)} updates, {span(known)}{gone}."


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
