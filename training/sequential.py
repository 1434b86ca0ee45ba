"""A test of two arms' thumbs that may be looked at after every vote and stopped at any of them. Pure.

Of each arm the likelihood ratio of a mixture of rates against one rate p,

    M(p) = B(S + ½, n − S + ½) / B(½, ½) / (pˢ (1 − p)ⁿ⁻ˢ),   S of n votes up,

is a martingale that begins at 1 while votes come up at rate p (Robbins, "Statistical methods related to the law of the
iterated logarithm", 1970; the mixture SPRT). So is the product of the two arms' under (p₀, p₁), however many votes
each has and whoever comes next. By Ville's inequality it ever reaches 1/α with probability α at most. What differences
p₁ − p₀ are left by all pairs it has not refuted is a confidence sequence: it holds the true one at all times at once,
with probability 1 − α (Turner and Grünwald, arXiv:2203.09785; Howard and others, arXiv:1810.08240).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["better", "no worse", "worse", "unknown"]

ALPHA = 0.05
"""How often, at most, a trial ends on a claim that is wrong."""

MARGIN = 0.1
"""By how much a rate of thumbs up may be lower and still be called no worse."""

MOST_VOTES = 20_000
"""Nobody waits for more than so many: what takes longer is not known."""

STEPS = 50
"""Halvings of an interval of rates: the error that is left is below 1e-15."""


@dataclass(frozen=True)
class Arm:
    """What was said of one checkpoint's replies: one vote a conversation."""

    ups: int = 0
    downs: int = 0

    def __post_init__(self) -> None:
        if self.ups < 0 or self.downs < 0:
            raise ValueError(f"{self.ups} up and {self.downs} down are no votes")

    @property
    def votes(self) -> int:
        return self.ups + self.downs

    @property
    def rate(self) -> float | None:
        """The share that is up; None before the first vote."""
        return self.ups / self.votes if self.votes else None


@dataclass(frozen=True)
class Reading:
    """What the votes so far say of how much likelier a thumb up is with the candidate."""

    verdict: Verdict
    low: float
    high: float
    """Between these lies the difference of the rates, −1 to 1."""
    evidence: float
    """Against there being no difference at all: 1 is none, 1/α refutes it."""
    needed: int | None
    """About how many more votes, of both arms together, until something is known if the rates stay as they are; 0 once
    it is; None where MOST_VOTES would not do."""


def read(
    live: Arm, candidate: Arm, *, alpha: float = ALPHA, margin: float = MARGIN, share: float | None = None
) -> Reading:
    """Hold the candidate's votes against the live checkpoint's. Raises ValueError for an alpha or margin that is none.

    `share` is how much of the coming votes the candidate gets, 0 to 1; where it is not given, as much as so far.

    Worked by hand: with no vote M is 1. With k up for the candidate and k down for the other, the likeliest common
    rate is ½ and the evidence (B(k + ½, ½)/π)² · 4ᵏ: 19.1 for k = 4, which is not 20, and 62.0 for k = 5.

    >>> read(Arm(0, 4), Arm(4, 0)).verdict, read(Arm(0, 5), Arm(5, 0)).verdict
    ('no worse', 'better')
    >>> round(read(Arm(0, 4), Arm(4, 0)).evidence, 1), round(read(Arm(0, 5), Arm(5, 0)).evidence, 1)
    (19.1, 62.0)
    """
    if not 0 < alpha < 1 or not 0 < margin < 1:
        raise ValueError(f"alpha and margin lie between 0 and 1: {alpha}, {margin} do not")
    counts = (float(live.ups), float(live.downs), float(candidate.ups), float(candidate.downs))
    low, high = interval(counts, alpha)
    verdict = _verdict(low, high, margin)
    needed = 0 if verdict != "unknown" else _needed(live, candidate, alpha, margin, share)
    evidence = math.exp(min(least(counts, 0.0), 700.0))
    return Reading(verdict, low, high, evidence, needed)


def interval(counts: tuple[float, float, float, float], alpha: float = ALPHA) -> tuple[float, float]:
    """The differences that the votes (up and down, live and candidate) leave possible.

    >>> interval((0, 0, 0, 0))
    (-1.0, 1.0)
    """
    bound = math.log(1 / alpha)
    seen = _middle(counts[2], counts[3]) - _middle(counts[0], counts[1])

    def is_possible(difference: float) -> bool:
        return least(counts, difference) < bound

    if not is_possible(seen):  # the middle of nothing at all is not the likeliest
        seen = 0.0
    return _edge(is_possible, seen, -1.0), _edge(is_possible, seen, 1.0)


def least(counts: tuple[float, float, float, float], difference: float) -> float:
    """The logarithm of the evidence against this difference: that against the pair of rates p and p + difference which
    the votes speak least against."""
    live_up, live_down, up, down = counts
    begin, end = max(0.0, -difference), min(1.0, 1.0 - difference)

    def slope(p: float) -> float:
        """Of the sum's logarithm; it only ever rises."""
        q = p + difference
        return _part(live_down, 1 - p) - _part(live_up, p) + _part(down, 1 - q) - _part(up, q)

    for _ in range(STEPS):
        middle = (begin + end) / 2
        if slope(middle) > 0:
            end = middle
        else:
            begin = middle
    p = (begin + end) / 2
    return _log_ratio(live_up, live_down, p) + _log_ratio(up, down, p + difference)


def _part(votes: float, rate: float) -> float:
    if not votes:
        return 0.0
    return votes / rate if rate > 0 else math.inf


def _log_ratio(ups: float, downs: float, p: float) -> float:
    """ln M(p) of one arm."""
    mixture = math.lgamma(ups + 0.5) + math.lgamma(downs + 0.5) - math.lgamma(ups + downs + 1) - math.log(math.pi)
    return mixture - _times_log(ups, p) - _times_log(downs, 1 - p)


def _times_log(votes: float, rate: float) -> float:
    if not votes:
        return 0.0
    return votes * math.log(rate) if rate > 0 else -math.inf


def _middle(ups: float, downs: float) -> float:
    return ups / (ups + downs) if ups + downs else 0.5


def _edge(is_possible: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last difference from `inside` towards `outside` that is possible; ln M is convex, so there is no gap."""
    if is_possible(outside):
        return outside
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        if is_possible(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "no worse" if low > -margin else "unknown"


def _needed(live: Arm, candidate: Arm, alpha: float, margin: float, share: float | None) -> int | None:
    """By doubling, then halving. The rates that are expected lean to one half as long as few have voted."""
    total = live.votes + candidate.votes
    share = share if share is not None else (candidate.votes / total if total else 0.5)
    share = min(max(share, 0.01), 0.99)
    rates = [(arm.ups + 0.5) / (arm.votes + 1) for arm in (live, candidate)]

    def is_enough(more: int) -> bool:
        parts = (more * (1 - share), more * share)
        up, more_up = (part * rate for part, rate in zip(parts, rates, strict=True))
        down, more_down = (part * (1 - rate) for part, rate in zip(parts, rates, strict=True))
        counts = (live.ups + up, live.downs + down, candidate.ups + more_up, candidate.downs + more_down)
        return _is_known(counts, alpha, margin)

    most = 1
    while not is_enough(most):
        most *= 2
        if most > MOST_VOTES:
            return None
    least_known = most // 2
    while most - least_known > max(1, most // 50):
        middle = (most + least_known) // 2
        least_known, most = (least_known, middle) if is_enough(middle) else (middle, most)
    return most


def _is_known(counts: tuple[float, float, float, float], alpha: float, margin: float) -> bool:
    """Whether a verdict stands, with three looks in place of an interval's two edges."""
    bound = math.log(1 / alpha)
    seen = _middle(counts[2], counts[3]) - _middle(counts[0], counts[1])
    if least(counts, 0.0) >= bound:  # better, or worse
        return True
    return seen > -margin and least(counts, -margin) >= bound
