"""First-reply scores over time, and shares under one another, drawn on the server with the sentence that says each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from judge.agreement import wilson
from judge.firsts import First, Moment
from judge.tally import Tally
from training.sequential import Arm

WIDTH, HEIGHT = 480.0, 176.0
LEFT, RIGHT, TOP, BOTTOM = 34.0, 14.0, 24.0, 24.0

MOST_POINTS = 200
"""First replies that are drawn one by one; of more, evenly chosen ones and the last."""

APART = 30.0
"""How far from the one before a mark must stand to be named as well."""

ROW = 26.0
MOST_ROWS = 12
"""Checkpoints that are drawn, the newest of those that were rated."""


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

    @property
    def grid(self) -> list[tuple[float, str]]:
        return [(_y(share), f"{share:.0%}") for share in (0.0, 0.5, 1.0)]


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
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(part, 0.0), 1.0), 1)

    kept = evenly(len(scored))
    drawn = [moments[place] for place in kept]
    xs = [x(one.at) for one in drawn]
    upper = [f"{at} {_y(one.high)}" for at, one in zip(xs, drawn, strict=True)]
    lower = [f"{at} {_y(one.low)}" for at, one in zip(xs, drawn, strict=True)]
    ends = moments[0], moments[-1]
    content = sum(row.score == 1 for row in scored)
    sentence = (
        f"First replies from {first:%-d %B %Y} to {last:%-d %B %Y}: {content} of {len(scored)} were received well. Of "
        f"the last {ends[1].number} it was {ends[1].share:.0%}, 95 % interval {ends[1].low:.0%} to {ends[1].high:.0%}."
    )
    return Course(
        line=" ".join(f"{at},{_y(one.share)}" for at, one in zip(xs, drawn, strict=True)),
        band=f"M{' L'.join([*upper, *reversed(lower)])} Z",
        spots=tuple(_spot(scored[place], x(scored[place].at), name) for place in kept),
        marks=tuple(marks([(x(at), at, number) for at, number in went_live if first <= at <= last], name)),
        first=first,
        last=last,
        sentence=sentence,
        rows=tuple(reversed(drawn)),
    )


def marks(moves: Sequence[tuple[float, datetime, int]], name: str) -> list[Mark]:
    """Where checkpoints went live, the oldest first; one that stands close to the last named one keeps its title
    alone."""
    found, free = [], 0.0
    for x, at, number in moves:
        shown = f"@{number}" if x >= free else ""
        free = x + APART if shown else free
        found.append(Mark(x, shown, f"{name}@{number} went live on {at:%-d %B %Y, %H:%M}"))
    return found


def _spot(row: First, x: float, name: str) -> Spot:
    how = "content" if row.score == 1 else "a change was asked for"
    by = "said so" if row.is_said else "read out of what followed"
    return Spot(
        x,
        _y(1.0) - 6 if row.score == 1 else _y(0.0) + 6,
        row.is_said,
        f"{row.at:%-d %B %Y, %H:%M}, {name}@{row.checkpoint}: {how}, {by}",
    )


def evenly(number: int, most: int = MOST_POINTS) -> list[int]:
    """Places that are drawn, the first and the last among them.

    >>> evenly(3), evenly(10, most=4)
    ([0, 1, 2], [0, 3, 6, 9])
    """
    if number <= most:
        return list(range(number))
    return sorted({round(place * (number - 1) / (most - 1)) for place in range(most)})


def _y(share: float) -> float:
    return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share), 1)


@dataclass(frozen=True)
class Bar:
    """One share, and between what the true one lies."""

    name: str
    y: float
    low: float
    high: float
    at: float
    count: str
    title: str


@dataclass(frozen=True)
class Ladder:
    """Shares under one another."""

    bars: tuple[Bar, ...]
    height: float
    foot: float
    """Where the scale is written."""
    sentence: str
    left_out: int
    """Older checkpoints that are not drawn."""

    @property
    def grid(self) -> list[tuple[float, str]]:
        return [(across(share), f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]


NAMED, COUNTED = 92.0, 48.0
"""Room for names on the left, and for counts on the right."""


def ladder(arms: Mapping[str, Arm], what: str) -> Ladder | None:
    """Shares with Wilson's intervals, in this order, the last ones where there are many; None where nobody voted."""
    voted = {name: arm for name, arm in arms.items() if arm.votes}
    shown = list(voted.items())[-MOST_ROWS:]
    if not shown:
        return None
    bars = []
    for place, (name, arm) in enumerate(shown):
        edges, share = wilson(arm.ups, arm.votes), arm.ups / arm.votes
        title = f"{name}: {arm.ups} of {arm.votes} {what}, {edges.low:.0%} to {edges.high:.0%}"
        y = 14 + place * ROW
        bars.append(
            Bar(name, y, across(edges.low), across(edges.high), across(share), f"{arm.ups} of {arm.votes}", title)
        )
    foot = 14 + len(shown) * ROW
    return Ladder(tuple(bars), foot + 8, foot, "; ".join(bar.title for bar in bars) + ".", len(voted) - len(shown))


def across(share: float) -> float:
    return round(NAMED + (WIDTH - NAMED - COUNTED) * share, 1)


def choices(tally: Tally) -> Ladder | None:
    """The share of blind choices for what was learned, with the interval that may be looked at any time."""
    number = tally.first + tally.second
    if not number:
        return None
    (low, high), share = tally.interval, tally.first / number
    title = f"what was learned: {tally.first} of {number} choices, {low:.0%} to {high:.0%}"
    bar = Bar("learned", 14, across(low), across(high), across(share), f"{tally.first} of {number}", title)
    return Ladder((bar,), 14 + ROW + 8, 14 + ROW, f"{title}.", 0)
