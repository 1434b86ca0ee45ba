"""A run's figures over its updates, drawn on the server: each chart says how it is read, and has its numbers beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor, isfinite, log10
from typing import Any

WIDTH, HEIGHT = 340.0, 132.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 8.0, 20.0

MOST_COLUMNS = 60
"""Updates that a strip shows side by side; of more, neighbours share a column."""

MOST_POINTS = 200
"""Updates that a line and its table show; of more, evenly chosen ones and the last. The download has them all."""

FAR = 4.0
"""A limit this many times above all that was measured is named beside the chart and not drawn: it would press the
line flat."""

BARS = 12

DENSE = 24


@dataclass(frozen=True)
class About:
    """What one chart shows, and how a person reads it."""

    key: str
    title: str
    names: Mapping[str, str]
    """Figures by their names in a run's metrics, and what their lines are called."""
    reading: str
    worry: str
    from_zero: bool = False
    limit: str = ""
    """The recipe's knob that is drawn as a limit."""
    most: float | None = None
    """What is worrying above it, where no knob says so."""
    past: str = ""
    """What it means that the limit was passed, after the figure's name and numbers."""


LOSS_PARTS = {
    "loss": "loss",
    "policy_loss": "policy",
    "distillation_loss": "teacher",
    "supervised_loss": "rewrites, before w_sft",
    "preference_loss": "preference, before w_dpo",
    "repetition_loss": "what is said again, before w_again",
    "refrain_loss": "what is rightly said again, before w_again",
    "closed_loss": "closed questions, before w_closed",
    "kl_loss": "KL to the base, before beta",
}

ABOUT = (
    About(
        "loss",
        "Loss",
        LOSS_PARTS,
        "What the updates make smaller; the parts are what the recipe adds up to it.",
        "Rising from update to update is worrying: the rate is too high. Only the direction means something, since "
        "each batch has a level of its own.",
    ),
    About(
        "preference",
        "Preference",
        {"preference_margin": "rewrites over replies", "preference_chosen": "rewrites themselves"},
        "How much likelier what people wrote has become than the replies that they wrote it in place of, and than it "
        "was, beside the base and in nats.",
        "Falling over a run is worrying: the policy would rather say what was rewritten. Rewrites themselves far below "
        "0 are too: then both have become unlikely, and something else is said.",
        from_zero=True,
    ),
    About(
        "kl",
        "KL to the base",
        {"kl": "KL"},
        "How far the policy has moved from the base model, in nats per token of these replies.",
        "A steep rise is worrying: what the lesson does not speak of is changing too. More beta or fewer updates "
        "hold it.",
        from_zero=True,
    ),
    About(
        "entropy",
        "Entropy",
        {"entropy": "entropy"},
        "How undecided the policy is about the next token, in nats.",
        "A fall towards 0 is worrying: it says the same thing whatever is asked. A sudden rise means that it comes "
        "apart.",
        from_zero=True,
    ),
    About(
        "clip",
        "Clip fraction",
        {"clip_fraction": "share of tokens"},
        "The share of tokens that have moved as far as one run lets them.",
        "Above about 0.3 is worrying: much of the batch teaches no more, and the rate or the updates are too high.",
        from_zero=True,
        most=0.3,
        past="much of the batch taught no more. A lower rate or fewer updates help.",
    ),
    About(
        "gap",
        "Engine and learner",
        {"gap_mean": "mean", "gap_p99": "99th percentile"},
        "How far apart the engine that served the replies and the learner are on the same weights, in nats per token.",
        "It should be near 0: at the limit the run stops, since one of the two does not run what it says.",
        from_zero=True,
        limit="max_gap",
        past="engine and learner do not run the same weights alike.",
    ),
    About(
        "grad_norm",
        "Gradient norm",
        {"grad_norm": "before clipping"},
        "The length of each update's gradient, before it is scaled down to its limit.",
        "Spikes far above the others are worrying: one sample outweighs the batch. Exactly 0 teaches nothing.",
        from_zero=True,
        limit="max_grad_norm",
        past="such updates were scaled down to it. Often so, the rate is too high.",
    ),
    About(
        "adapter_norm",
        "Adapter norm",
        {"adapter_norm": "adapter"},
        "How large the adapter’s numbers are together, the random ones that it began with and earlier runs included.",
        "It grows slowly over runs; a leap within one is worrying.",
    ),
    About(
        "closed",
        "Closed questions",
        {"closed_right": "answered right"},
        "The share of the closed questions of each update whose right answer was likelier than the wrong ones, before "
        "it learned from them. Each update asks others.",
        "Far lower than in earlier runs is worrying: what the model knew is going. Of sixteen questions a tenth either "
        "way is chance.",
    ),
    About(
        "speed",
        "Tokens a second",
        {"tokens_per_s": "reply tokens"},
        "How many tokens of replies were learned from in a second.",
        "Falling within a run is worrying: the machine is short of memory, or something else works on it.",
        from_zero=True,
    ),
)

ADVANTAGES = About(
    "advantages",
    "Advantages",
    {"advantage_max": "highest", "advantage_mean": "mean", "advantage_min": "lowest"},
    "How much better (above 0) or worse (below 0) than expected the tokens of each update were.",
    "Everything at 0 teaches nothing; everything on one side only praises or only blames.",
)

LENGTHS = About(
    "lengths",
    "Reply lengths",
    {},
    "How long the replies are that the run learns from, in tokens.",
    "All of them alike, or all at the length limit, is worrying: the policy may be learning a length and not a manner.",
    limit="max_tokens",
)

HIDDEN = {"update", "advantage_histogram", "reply_tokens_mean", "reply_tokens_max"}
"""What the other figures are counted by, and what is drawn in another shape."""

BATCH = "replies_"
"""How figures begin that say of the whole batch how many replies carry which signal."""
CARRIED = ("praised", "blamed", "marked", "hinted", "demonstrated", "rewritten", "rehearsed", "replayed")
"""In this order: PostgreSQL keeps none."""


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Line:
    """One figure over updates; parted where an update has no number."""

    label: str
    segments: tuple[tuple[Point, ...], ...]

    @property
    def path(self) -> str:
        return " ".join("M" + " L".join(f"{p.x:g} {p.y:g}" for p in segment) for segment in self.segments)

    @property
    def points(self) -> list[Point]:
        return [point for segment in self.segments for point in segment]

    @property
    def is_dense(self) -> bool:
        """So many points that their dots would hide the line: those are felt under the pointer and not seen."""
        return len(self.points) > DENSE


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
    grid: tuple[tuple[float, str], ...] = ()
    """Lines across: their height and number."""
    limit: float | None = None
    limit_says: str = ""
    ends: tuple[str, ...] = field(default=())
    """What stands under the left and the right end."""

    @property
    def is_drawn(self) -> bool:
        """One number is said and not drawn: a point has no direction."""
        return bool(self.cells) or any(len(line.points) > 1 for line in self.lines)


def charts(metrics: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any], lengths: Sequence[int] = ()) -> list[Chart]:
    """The charts of a run; figures that it has not are left out. `lengths` are its replies', in tokens."""
    drawn = [chart(about, metrics, recipe) for about in ABOUT]
    advantages = strip(metrics) or chart(ADVANTAGES, metrics, recipe)
    made = [*drawn[:5], advantages, *drawn[5:6], bars(lengths, recipe), *drawn[6:]]
    return [one for one in made if one is not None]


def worries(metrics: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]) -> list[str]:
    """Which figures passed their limit, and what that means; none of them: nothing here is worrying.

    >>> worries([{"clip_fraction": 0.2}, {"clip_fraction": 0.34}], {})
    ['Clip fraction: 0.34, above 0.3, in 1 of 2 updates: much of the batch taught no more. A lower rate or fewer \
updates help.']
    """
    found = []
    for about in ABOUT:
        most = about.most if about.most is not None else limit_of(about, recipe)
        if most is None or not about.past:
            continue
        values = [step[name] for name in list(about.names)[:1] for step in metrics if is_number(step.get(name))]
        over = [value for value in values if value > most]
        if over:
            found.append(
                f"{about.title}: {short(max(over))}, above {short(most)}, in {len(over)} of {len(values)} "
                f"update{'s' if len(values) > 1 else ''}: {about.past}"
            )
    return found


def others(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Figures of the first update that no chart shows."""
    shown = {name for about in (*ABOUT, ADVANTAGES) for name in about.names} | HIDDEN
    first = metrics[0] if metrics else {}
    return [name for name in first if is_number(first[name]) and name not in shown and not name.startswith(BATCH)]


def signals(metrics: Sequence[Mapping[str, Any]]) -> str:
    """What the replies of the batch carry, as a run's first update says it.

    >>> signals([{"replies_praised": 3, "replies_blamed": 0, "replies_hinted": 2, "loss": 0.5}])
    '3 praised, 2 hinted'
    """
    first = metrics[0] if metrics else {}
    kept = [(name, first.get(f"{BATCH}{name}")) for name in CARRIED]
    return ", ".join(f"{value:g} {name}" for name, value in kept if is_number(value) and value)


def chart(about: About, metrics: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]) -> Chart | None:
    """Some figures over updates as lines; None where the run has none of them."""
    series = {
        name: [float(step[name]) if is_number(step.get(name)) else None for step in metrics] for name in about.names
    }
    series = {name: values for name, values in series.items() if any(value is not None for value in values)}
    if not series:
        return None
    known = [value for values in series.values() for value in values if value is not None]
    limit = limit_of(about, recipe)
    is_far = limit is not None and limit > FAR * max(known)
    low = min([*known, 0.0] if about.from_zero else known)
    high = max(known if limit is None or is_far else [*known, limit])
    if about.from_zero:
        high = max(high, 0.0)
    low, high, marks = scale(low, high)
    updates = [str(step.get("update", place)) for place, step in enumerate(metrics, 1)]
    lines = []
    kept = evenly(len(metrics))
    for name, values in series.items():
        label = about.names[name]
        chosen = [(place, values[place]) for place in kept]
        points = [
            None
            if value is None
            else Point(across(place, len(values)), up(value, low, high), f"update {updates[place]}: {short(value)}")
            for place, value in chosen
        ]
        lines.append(Line(label, parted(points)))
    first = next(iter(series.values()))
    last = next(value for value in reversed(first) if value is not None)
    said = "" if limit is None else f"limit {short(limit)}" + (", far above" if is_far else "")
    return Chart(
        about.key,
        about.title,
        about.reading,
        about.worry,
        short(last),
        " ".join(told(about.names[name], values) for name, values in series.items()),
        ("update", *(about.names[name] for name in series)),
        tuple((updates[place], *(cell(values[place]) for values in series.values())) for place in kept),
        lines=tuple(lines),
        grid=tuple((up(mark, low, high), short(mark)) for mark in marks),
        limit=None if limit is None or is_far else up(limit, low, high),
        limit_says=said,
        ends=("update 1",) if len(metrics) == 1 else (f"update {updates[0]}", updates[-1]),
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
    width = (WIDTH - LEFT - RIGHT) / len(columns)
    cells = []
    for place, (name, edges, counts) in enumerate(columns):
        total, fullest = sum(counts) or 1, max(counts) or 1
        for (lower, upper), count in zip(pairwise(edges), counts, strict=True):
            if not count:
                continue
            top, bottom = up(upper, low, high), up(lower, low, high)
            # By the square root, so that a bin with a few tokens is still seen beside one with most of them.
            shade = round(0.12 + 0.88 * (count / fullest) ** 0.5, 2)
            title = f"{name}: {share(count, total)} between {short(lower)} and {short(upper)}"
            x = LEFT + place * width
            cells.append(Cell(round(x, 1), top, round(width, 2), round(bottom - top, 1), shade, title))
    last = kept[-1][1]
    above, below = sides(last)
    total = sum(last["counts"]) or 1
    sentence = (
        f"Advantages of the last update's {total:g} tokens: {share(above, total)} above 0, {share(below, total)} "
        f"below, {share(total - above - below, total)} about 0."
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
        grid=tuple((up(mark, low, high), short(mark)) for mark in marks),
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
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    tallest = max(counts)
    cells, rows = [], []
    for place, count in enumerate(counts):
        lower, upper = edges[place], edges[place + 1] - 1
        span = f"{lower}" if lower == upper else f"{lower} to {upper}"
        y = up(count, 0, tallest)
        x = round(LEFT + place * width + 1, 1)
        cells.append(Cell(x, y, round(width - 2, 1), round(HEIGHT - BOTTOM - y, 1), 1.0, f"{span} tokens: {count}"))
        rows.append((span, str(count)))
    middle = known[len(known) // 2] if len(known) % 2 else (known[len(known) // 2 - 1] + known[len(known) // 2]) / 2
    cut = limit_of(LENGTHS, recipe)
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
        grid=tuple((up(mark, 0, tallest), short(mark)) for mark in {0, tallest}),
        ends=(f"{low} tokens", *([str(high)] if high > low else [])),
    )


def evenly(number: int) -> list[int]:
    """The places of `number` updates that are shown, the first and the last among them.

    >>> evenly(3), len(evenly(1001)), evenly(1001)[:2], evenly(1001)[-1]
    ([0, 1, 2], 200, [0, 5], 1000)
    """
    if number <= MOST_POINTS:
        return list(range(number))
    return [round(place * (number - 1) / (MOST_POINTS - 1)) for place in range(MOST_POINTS)]


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
    between = f"between {short(min(known))} and {short(max(known))}"
    return f"{label}: from {short(known[0])} to {short(known[-1])} in {len(values)} updates, {between}{gone}."


def parted(points: Iterable[Point | None]) -> tuple[tuple[Point, ...], ...]:
    """Points in runs without a gap."""
    segments: list[list[Point]] = [[]]
    for point in points:
        if point is not None:
            segments[-1].append(point)
        elif segments[-1]:
            segments.append([])
    return tuple(tuple(segment) for segment in segments if segment)


def limit_of(about: About, recipe: Mapping[str, Any]) -> float | None:
    value = recipe.get(about.limit) if about.limit else None
    return float(value) if value is not None and is_number(value) else None


def across(place: int, of: int) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * (place / (of - 1) if of > 1 else 0.5), 1)


def up(value: float, low: float, high: float) -> float:
    part = (value - low) / (high - low) if high > low else 0.5
    return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part, 1)


def cell(value: float | None) -> str:
    return "–" if value is None else short(value)


def short(value: float) -> str:
    """
    >>> short(0.123456), short(-2), short(0.000012345)
    ('0.1235', '−2', '1.23e−05')
    """
    digits = 3 if value and abs(value) < 1e-3 else 4
    return f"{value:.{digits}g}".replace("-", "−")


def share(count: float, total: float) -> str:
    """
    >>> share(1, 3), share(1, 1000), share(0, 5)
    ('33 %', 'under 1 %', '0 %')
    """
    percent = 100 * count / total
    return "under 1 %" if 0 < percent < 1 else f"{percent:.0f} %"


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def is_histogram(value: object) -> bool:
    """True for {"edges": n + 1 rising numbers, "counts": n numbers}."""
    if not isinstance(value, Mapping):
        return False
    edges, counts = value.get("edges"), value.get("counts")
    if not isinstance(edges, list) or not isinstance(counts, list) or len(edges) != len(counts) + 1 or not counts:
        return False
    return all(map(is_number, (*edges, *counts))) and all(one < two for one, two in pairwise(edges))
