"""How sure a mean is: a bootstrap over pairs. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

DRAWS = 2000
SEED = 20
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean, and where it lies 95 times in 100."""

    mean: float
    low: float
    high: float
    number: int
    """Of how many."""


def interval(changes: Sequence[float], *, draws: int = DRAWS, seed: int = SEED) -> Interval:
    """The mean of paired changes with its percentile bootstrap interval (Efron 1979): the same seed, the same interval.

    Raises ValueError where there is none.

    >>> found = interval([0.1, 0.3, 0.2, 0.2])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.2, 0.125, 0.275)
    """
    if not changes:
        raise ValueError("no change, no interval")
    chance, number = random.Random(seed), len(changes)
    means = sorted(sum(chance.choices(changes, k=number)) / number for _ in range(draws))
    tail = round(draws * (1 - LEVEL) / 2)
    return Interval(sum(changes) / number, means[tail], means[-1 - tail], number)
