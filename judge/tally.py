"""What blind choices between two sets of weights come to, and how many more would tell. Pure.

The likelihood ratio of a mixture of rates against one half,

    M = B(S + ½, n − S + ½) / B(½, ½) · 2ⁿ,   S of n choices for one side,

is a martingale while people choose by a coin, so it ever reaches 1/α with probability α at most, however often one
looks (Ville's inequality; Robbins, 1970). Those who see no difference count for neither side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ALPHA = 0.05
MOST_CHOICES = 5_000
"""Nobody is asked so often: what takes longer is not known."""


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
    total = first + second
    mixture = math.lgamma(first + 0.5) + math.lgamma(second + 0.5) - math.lgamma(total + 1) - math.log(math.pi)
    return math.exp(min(mixture + total * math.log(2), 700.0))
