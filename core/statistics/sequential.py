"""Sequential tests: two arms' rates, or choices between two sides, looked at after every vote. Pure.

The likelihood ratio of a mixture of rates against one rate p,

    M(p) = B(S + ½, n − S + ½) / B(½, ½) / (pˢ (1 − p)ⁿ⁻ˢ),   S of n votes up,

is a martingale that begins at 1 while votes come up at rate p (Robbins, "Statistical methods related to the law of the
iterated logarithm", 1970; the mixture SPRT). So is the product of two arms' under (p₀, p₁), however many votes each has
and whichever comes next. By Ville's inequality it ever reaches 1/α with probability α at most, so it may be looked at
after every vote and stopped at any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from core.statistics.means import Bounds

ALPHA = 0.05
"""How often, at most, a sequential test ends on a claim that is wrong."""

MARGIN = 0.1
"""By how much a rate may be lower and still be called no worse."""

MOST_VOTES = 20_000
"""What takes two arms more votes than these is not known."""

MOST_CHOICES = 5_000
"""What takes a tally more choices than these is not known."""

STEPS = 50
"""Halvings of an interval of rates: the error that is left is below 1e-15."""


@dataclass(frozen=True)
class Arm:
    """Votes on one of the things compared."""

    ups: int = 0
    downs: int = 0

    def __post_init__(self) -> None:
        if self.ups < 0 or self.downs < 0:
            raise ValueError(f"{self.ups} up and {self.downs} down are no votes")

    def __add__(self, other: Arm) -> Arm:
        return Arm(self.ups + other.ups, self.downs + other.downs)

    @property
    def votes(self) -> int:
        return self.ups + self.downs

    @property
    def rate(self) -> float | None:
        """The share that is up; None before the first vote."""
        return self.ups / self.votes if self.votes else None


def count_arms(votes: Iterable[tuple[int, bool]]) -> dict[int, Arm]:
    """Arms of (number, whether it is up), by number.

    >>> count_arms([(0, True), (3, False), (3, True), (3, False)])
    {0: Arm(ups=1, downs=0), 3: Arm(ups=1, downs=2)}
    """
    counts: dict[int, list[int]] = {}
    for number, is_up in votes:
        counts.setdefault(number, [0, 0])[not is_up] += 1
    return {number: Arm(*counts[number]) for number in sorted(counts)}


Verdict = Literal["better", "no worse", "worse", "unknown"]
Counts = tuple[float, float, float, float]
"""Votes up and down of live, then of the candidate; those that are expected may be parts of one."""


@dataclass(frozen=True)
class Reading:
    """What the votes so far say of how much likelier a vote up is with the candidate."""

    verdict: Verdict
    low: float
    high: float
    """Between these lies the difference of the rates, −1 to 1."""
    evidence: float
    """Against there being no difference at all: 1 is none, 1/α refutes it."""
    needed: int | None
    """About how many more votes, of both arms together, until something is known if the rates stay as they are; 0 once
    it is; None where MOST_VOTES would not do."""


def compare(
    live: Arm, candidate: Arm, *, alpha: float = ALPHA, margin: float = MARGIN, share: float | None = None
) -> Reading:
    """Hold the candidate's votes against the live checkpoint's. Raises ValueError for an alpha or margin that is none.

    `share` is how much of the coming votes the candidate gets, 0 to 1; where it is not given, as much as so far. The
    differences that no pair of rates under test has lost are a confidence sequence: it holds the true one at all times
    at once, with probability 1 − α (Turner and Grünwald, arXiv:2203.09785; Howard and others, arXiv:1810.08240).

    By hand: with no vote M is 1. With k up for the candidate and k down for the other, the likeliest common rate is ½
    and the evidence (B(k + ½, ½)/π)² · 4ᵏ: 19.1 for k = 4, which is not 20, and 62.0 for k = 5.

    >>> compare(Arm(0, 4), Arm(4, 0)).verdict, compare(Arm(0, 5), Arm(5, 0)).verdict
    ('no worse', 'better')
    >>> round(compare(Arm(0, 4), Arm(4, 0)).evidence, 1), round(compare(Arm(0, 5), Arm(5, 0)).evidence, 1)
    (19.1, 62.0)
    """
    if not 0 < alpha < 1 or not 0 < margin < 1:
        raise ValueError(f"alpha and margin lie between 0 and 1: {alpha}, {margin} do not")
    counts = (float(live.ups), float(live.downs), float(candidate.ups), float(candidate.downs))
    low, high = differences(counts, alpha)
    verdict = _verdict(low, high, margin)
    needed = 0 if verdict != "unknown" else _votes_needed(live, candidate, alpha, margin, share)
    return Reading(verdict, low, high, _evidence(log_evidence(counts, 0.0)), needed)


def differences(counts: Counts, alpha: float = ALPHA) -> Bounds:
    """The differences of the rates, candidate less live, that the votes leave possible.

    >>> differences((0, 0, 0, 0))
    Bounds(low=-1.0, high=1.0)
    """
    bound = -math.log(alpha)
    seen = _middle(counts[2], counts[3]) - _middle(counts[0], counts[1])

    def is_possible(difference: float) -> bool:
        return log_evidence(counts, difference) < bound

    if not is_possible(seen):  # the middle of nothing at all is not the likeliest
        seen = 0.0
    return Bounds(_edge(is_possible, seen, -1.0), _edge(is_possible, seen, 1.0))


def log_evidence(counts: Counts, difference: float) -> float:
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
    return log_ratio(live_up, live_down, p) + log_ratio(up, down, p + difference)


def _verdict(low: float, high: float, margin: float) -> Verdict:
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    return "no worse" if low > -margin else "unknown"


def _votes_needed(live: Arm, candidate: Arm, alpha: float, margin: float, share: float | None) -> int | None:
    """The rates that are expected lean to one half as long as few have voted."""
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

    return _fewest(is_enough, MOST_VOTES)


def _is_known(counts: Counts, alpha: float, margin: float) -> bool:
    """Whether a verdict stands, with three looks in place of an interval's two edges."""
    bound = -math.log(alpha)
    seen = _middle(counts[2], counts[3]) - _middle(counts[0], counts[1])
    if log_evidence(counts, 0.0) >= bound:  # better, or worse
        return True
    return seen > -margin and log_evidence(counts, -margin) >= bound


@dataclass(frozen=True)
class Tally:
    """Choices for either side, and those that saw no difference, which count for neither."""

    first: int = 0
    second: int = 0
    same: int = 0

    @property
    def evidence(self) -> float:
        """Against a coin: 1 is none, 20 refutes it with α = 0.05.

        By hand: k to none is B(k + ½, ½)/π · 2ᵏ, and B(7½, ½)/π = 0.2095.

        >>> round(Tally(5, 0).evidence, 1), round(Tally(7, 0).evidence, 1)
        (7.9, 26.8)
        """
        return _evidence(log_ratio(self.first, self.second, 0.5))

    @property
    def is_known(self) -> bool:
        return self.evidence >= 1 / ALPHA

    @property
    def ahead(self) -> str:
        """first | second, or nothing while they are level."""
        if self.first == self.second:
            return ""
        return "first" if self.first > self.second else "second"

    @property
    def share(self) -> float | None:
        """How much of those who told the two apart chose the first; None before the first choice."""
        return Arm(self.first, self.second).rate

    @property
    def interval(self) -> Bounds:
        """The shares that the choices leave possible, at all times at once; one half is outside as soon as it is known.

        By hand: seven to none leave a rate p as long as 0.2095 / p⁷ < 20: p above (0.2095 / 20)^(1/7) = 0.52.

        >>> [round(edge, 2) for edge in Tally(7, 0).interval], Tally().interval
        ([0.52, 1.0], Bounds(low=0.0, high=1.0))
        """
        seen = _middle(self.first, self.second)

        def is_possible(rate: float) -> bool:
            return log_ratio(self.first, self.second, rate) < -math.log(ALPHA)

        return Bounds(_edge(is_possible, seen, 0.0), _edge(is_possible, seen, 1.0))

    @property
    def needed(self) -> int | None:
        """About how many more choices, if people go on as they have begun; 0 once it is known, None where it would take
        more than MOST_CHOICES. Before the first choice, the fewest there can be: all for one side.

        >>> Tally().needed, Tally(6, 0).needed, Tally(7, 0).needed, Tally(3, 3).needed
        (7, 1, 0, None)
        """
        if self.is_known:
            return 0
        more, less = max(self.first, self.second), min(self.first, self.second)
        rate = more / (more + less) if more else 1.0
        return _fewest(
            lambda number: _evidence(log_ratio(more + number * rate, less + number * (1 - rate), 0.5)) >= 1 / ALPHA,
            MOST_CHOICES,
        )


def log_ratio(ups: float, downs: float, rate: float) -> float:
    """ln M(rate): the logarithm of the evidence against votes coming up at this rate."""
    mixture = math.lgamma(ups + 0.5) + math.lgamma(downs + 0.5) - math.lgamma(ups + downs + 1) - math.log(math.pi)
    return mixture - _times_log(ups, rate) - _times_log(downs, 1 - rate)


def _times_log(votes: float, rate: float) -> float:
    if not votes:
        return 0.0
    return votes * math.log(rate) if rate > 0 else -math.inf


def _part(votes: float, rate: float) -> float:
    if not votes:
        return 0.0
    return votes / rate if rate > 0 else math.inf


def _evidence(logarithm: float) -> float:
    return math.exp(min(logarithm, 700.0))  # the largest power that is a number


def _middle(ups: float, downs: float) -> float:
    return ups / (ups + downs) if ups + downs else 0.5


def _edge(is_possible: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last value from `inside` towards `outside` that is possible; ln M is convex, so there is no gap."""
    if is_possible(outside):
        return outside
    for _ in range(STEPS):
        middle = (inside + outside) / 2
        if is_possible(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _fewest(is_enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number up to `most` that is enough, by doubling, then halving; None where not even that is."""
    enough = 1
    while not is_enough(enough):
        if enough == most:
            return None
        enough = min(2 * enough, most)
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return enough
