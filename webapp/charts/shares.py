"""Chart shares with their intervals: a trial's two arms, checkpoints, blind choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from core.statistics import MARGIN, Arm, Tally, wilson
from evaluation.arms import Standing
from webapp.charts.frame import Frame, Ticks, quarters

FRAME = Frame(480, 48, left=92, right=48, top=2, bottom=20)
"""Of a ladder with one row: names on the left, counts on the right."""
ROW = 26.0
FIRST = 14.0
"""Where the first row stands."""
MOST_ROWS = 12
"""Checkpoints that are drawn, the newest of those that were rated."""

TRIAL = Frame(440, 132, left=96, right=16, top=10, bottom=20)
ROWS = (22.0, 48.0, 100.0)


@dataclass(frozen=True)
class Bar:
    """One share, or a difference: where it is seen, and between what it lies."""

    name: str
    y: float
    low: float
    high: float
    at: float | None
    """None: nothing was seen yet."""
    title: str
    count: str = ""
    tone: int = 1
    """Which series' colour it has."""


@dataclass(frozen=True)
class Scale:
    """Upright lines between two heights, each with its number below."""

    marks: Ticks
    top: float
    foot: float

    @property
    def label_y(self) -> float:
        return self.foot + 12


@dataclass(frozen=True)
class Rule:
    """A dashed upright line."""

    x: float
    top: float
    foot: float


@dataclass(frozen=True)
class Chart:
    """Bars under one another, on one scale or two."""

    bars: tuple[Bar, ...]
    scales: tuple[Scale, ...]
    frame: Frame
    sentence: str
    left_out: int = 0
    """Older checkpoints that are not drawn."""
    rule: Rule | None = None
    caption: str = ""


def trial(now: Standing) -> Chart | None:
    """Both arms' shares of conversations thumbed up, and their difference; None with reviewers only."""
    if now.reading is None:
        return None
    live, candidate = now.live.votes, now.candidate.votes
    shares = (
        _bar(str(now.candidate.checkpoint), candidate, _("up"), ROWS[0], TRIAL),
        _bar(str(now.live.checkpoint), live, _("up"), ROWS[1], TRIAL, tone=2),
    )
    low, high = now.reading.low, now.reading.high
    seen = None if live.rate is None or candidate.rate is None else candidate.rate - live.rate
    said = _("difference %(low)s to %(high)s points") % {"low": f"{low * 100:+.0f}", "high": f"{high * 100:+.0f}"}
    at = None if seen is None else _ahead(seen)
    difference = Bar(_("difference, points"), ROWS[2], _ahead(low), _ahead(high), at, said)
    points = tuple((_ahead(one / 100), f"{one:+d}" if one else "0") for one in (-100, -50, 0, 50, 100))
    below = Scale(points, 88, 112)
    return Chart(
        (*shares, difference),
        (Scale(_shares(TRIAL), TRIAL.top, 58), below),
        TRIAL,
        "; ".join([*(one.title for one in shares), said]) + ".",
        rule=Rule(_ahead(-MARGIN), below.top - 4, below.foot + 4),
        caption=_(
            "Conversations thumbed up, with 95 %% intervals, and below how much the candidate is ahead: above 0 it is "
            "better, right of the dashed line (−%(margin)s points) no worse, below 0 worse. The lower one may be read "
            "at any time without being wrong more often than 1 in 20."
        )
        % {"margin": f"{MARGIN * 100:.0f}"},
    )


def _ahead(difference: float) -> float:
    """Where a difference of shares stands, −1 at the left end and 1 at the right."""
    return TRIAL.across((difference + 1) / 2)


def ladder(arms: Mapping[str, Arm], what: str) -> Chart | None:
    """Shares with Wilson's intervals, in this order, the last ones where there are many; None before the first vote."""
    voted = {name: arm for name, arm in arms.items() if arm.votes}
    shown = list(voted.items())[-MOST_ROWS:]
    if not shown:
        return None
    bars = [
        _bar(name, arm, what, FIRST + place * ROW, FRAME, count=out_of(arm.ups, arm.votes))
        for place, (name, arm) in enumerate(shown)
    ]
    return _laddered(bars, "; ".join(bar.title for bar in bars) + ".", len(voted) - len(shown))


def choices(tally: Tally) -> Chart | None:
    """The share of blind choices for what was learned, with the interval that may be looked at any time."""
    number = tally.first + tally.second
    if not number:
        return None
    (low, high), share = tally.interval, tally.first / number
    title = _("what was learned: %(n)s of %(of)s choices, %(low)s to %(high)s") % {
        "n": tally.first, "of": number, "low": f"{low:.0%}", "high": f"{high:.0%}"
    }  # fmt: skip
    edges = FRAME.across(low), FRAME.across(high), FRAME.across(share)
    return _laddered([Bar(_("learned"), FIRST, *edges, title, out_of(tally.first, number))], f"{title}.")


def _laddered(bars: list[Bar], sentence: str, left_out: int = 0) -> Chart:
    height = FIRST + len(bars) * ROW + 8
    frame = Frame(FRAME.width, height, FRAME.left, FRAME.right, FRAME.top, FRAME.bottom)
    return Chart(tuple(bars), (Scale(_shares(frame), frame.top, frame.foot),), frame, sentence, left_out)


def _bar(name: str, votes: Arm, what: str, y: float, frame: Frame, *, count: str = "", tone: int = 1) -> Bar:
    low, high = wilson(votes.ups, votes.votes)
    title = _("%(name)s: %(ups)s of %(votes)s %(what)s, %(low)s to %(high)s") % {
        "name": name, "ups": votes.ups, "votes": votes.votes, "what": what, "low": f"{low:.0%}", "high": f"{high:.0%}"
    }  # fmt: skip
    at = None if votes.rate is None else frame.across(votes.rate)
    return Bar(name, y, frame.across(low), frame.across(high), at, title, count, tone)


def out_of(number: int, whole: int) -> str:
    """
    >>> out_of(3, 4)
    '3 of 4'
    """
    return _("%(n)s of %(of)s") % {"n": number, "of": whole}


def _shares(frame: Frame) -> Ticks:
    return tuple((frame.across(one), f"{one:.0%}") for one in quarters())
