"""What blind choices between two sets of weights come to, and how many more would tell. Pure.

The likelihood ratio of a mixture of rates against one half,

    M = B(S + ½, n − S + ½) / B(½, ½) · 2ⁿ,   S of n choices for one side,

is a martingale while people choose by a coin, so it ever reaches 1/α with probability α at most, however often one
looks (Ville's inequality; Robbins, 1970). Those who see no difference count for neither side. The rates it has not
refuted, each in place of one half, are an interval of the share, and may be looked at as often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALPHA = 0.05
MOST_CHOICES = 5_000
"""Nobody is asked so often: what takes longer is not known."""

STEPS = 50
"""Halvings of an interval's edge: the error that is left is below 1e-15."""


@dataclass(frozen=True)
class Tally:
    """Choices for either side, and those that saw no difference."""

    first: int = 0
    second: int = 0
    same: int = 0

    @property
    def evidence(self) -> float:
        """Against a coin: 1 is none, 20 refutes it with α = 0.05.

        >>> round(Tally(5, 0).evidence, 1), round(Tally(7, 0).evidence, 1)
        (7.9, 26.8)
        """
        return _evidence(self.first, self.second)

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
        """How much of those who told the two apart chose the first; None while nobody did."""
        told = self.first + self.second
        return self.first / told if told else None

    @property
    def interval(self) -> tuple[float, float]:
        """The shares that the choices leave possible, at all times at once; one half is outside as soon as it is known.

        By hand: seven for the first and none for the second leave a rate p as long as B(7½, ½)/π / p⁷ < 20, and B is
        0.2095 π: p above (0.2095 / 20)^(1/7) = 0.52.

        >>> [round(edge, 2) for edge in Tally(7, 0).interval], Tally().interval
        ([0.52, 1.0], (0.0, 1.0))
        """
        share = self.share
        if share is None:
            return 0.0, 1.0
        return self._edge(share, 0.0), self._edge(share, 1.0)

    def _edge(self, inside: float, outside: float) -> float:
        """The last possible rate from the seen share outwards; the evidence is convex, so there is no gap."""
        if _log_evidence(self.first, self.second, outside) < -math.log(ALPHA):
            return outside
        for _ in range(STEPS):
            middle = (inside + outside) / 2
            if _log_evidence(self.first, self.second, middle) < -math.log(ALPHA):
                inside = middle
            else:
                outside = middle
        return inside

    @property
    def needed(self) -> int | None:
        """About how many more choices, if people go on as they have begun; 0 once it is known, None where it would take
        more than MOST_CHOICES. At least, if all were for one side, before anybody has chosen.

        >>> Tally().needed, Tally(6, 0).needed, Tally(7, 0).needed, Tally(3, 3).needed
        (7, 1, 0, None)
        """
        if self.is_known:
            return 0
        told = self.first + self.second
        rate = max(self.first, self.second) / told if told else 1.0
        for more in range(1, MOST_CHOICES + 1):
            if _evidence(
                max(self.first, self.second) + more * rate, min(self.first, self.second) + more * (1 - rate)
            ) >= (1 / ALPHA):
                return more
        return None


def _evidence(first: float, second: float) -> float:
    return math.exp(min(_log_evidence(first, second, 0.5), 700.0))


def _log_evidence(first: float, second: float, rate: float) -> float:
    """Against the first being chosen at this rate."""
    mixture = math.lgamma(first + 0.5) + math.lgamma(second + 0.5) - math.lgamma(first + second + 1) - math.log(math.pi)
    return mixture - _times_log(first, rate) - _times_log(second, 1 - rate)


def _times_log(choices: float, rate: float) -> float:
    if not choices:
        return 0.0
    return choices * math.log(rate) if rate > 0 else -math.inf
