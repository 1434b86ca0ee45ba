"""Shares with their intervals under one another, drawn on the server, and the difference between two of them."""

from __future__ import annotations

from dataclasses import dataclass

from core.statistics import MARGIN, Arm, wilson
from judge.arms import Standing

WIDTH = 440.0
LEFT, RIGHT = 96.0, 16.0
ROWS = (22.0, 48.0, 100.0)


@dataclass(frozen=True)
class Bar:
    """One share, or the difference: where it is seen, and between what it lies."""

    name: str
    y: float
    low: float
    high: float
    at: float | None
    """None: nothing was seen yet."""
    title: str


@dataclass(frozen=True)
class Chart:
    shares: tuple[Bar, ...]
    difference: Bar
    nothing: float
    """Where a difference of nothing is drawn."""
    margin: float
    """Where the largest loss is that still counts as no worse."""
    sentence: str

    @property
    def of_shares(self) -> list[tuple[float, str]]:
        return [(_share(one), f"{one:.0%}") for one in (0.0, 0.25, 0.5, 0.75, 1.0)]

    @property
    def of_differences(self) -> list[tuple[float, str]]:
        return [(_points(one / 100), f"{one:+d}" if one else "0") for one in (-100, -50, 0, 50, 100)]


def chart(now: Standing) -> Chart | None:
    """Both arms' shares of conversations thumbed up, and their difference; None with reviewers only."""
    if now.reading is None:
        return None
    live, candidate = now.live.votes, now.candidate.votes
    shares = (
        _bar(str(now.candidate.checkpoint), candidate, ROWS[0]),
        _bar(str(now.live.checkpoint), live, ROWS[1]),
    )
    low, high = now.reading.low, now.reading.high
    seen = None if live.rate is None or candidate.rate is None else candidate.rate - live.rate
    said = f"difference {low * 100:+.0f} to {high * 100:+.0f} points"
    at = None if seen is None else _points(seen)
    bar = Bar("difference, points", ROWS[2], _points(low), _points(high), at, said)
    sentence = "; ".join([*(one.title for one in shares), said]) + "."
    return Chart(shares, bar, _points(0.0), _points(-MARGIN), sentence)


def _bar(name: str, votes: Arm, y: float) -> Bar:
    found = wilson(votes.ups, votes.votes)
    title = f"{name}: {votes.ups} of {votes.votes} up, {found.low:.0%} to {found.high:.0%}"
    return Bar(
        name, y, _share(found.low), _share(found.high), None if votes.rate is None else _share(votes.rate), title
    )


def _share(share: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)


def _points(difference: float) -> float:
    return _share((difference + 1) / 2)
