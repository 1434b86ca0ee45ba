"""How sure a share, a mean or a ratio is that is looked at once: Wilson's interval, and the bootstrap. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
"""How often an interval holds the true value."""

Z = 1.96
"""The normal quantile of LEVEL, both sides."""

DRAWS = 2000
"""Resamples of a bootstrap."""

SEED = 20
"""Of a bootstrap's draws: the same values have the same interval."""

Numbers = NDArray[np.float64]


class Bounds(NamedTuple):
    """An interval in which the true value lies."""

    low: float
    high: float


@dataclass(frozen=True)
class Interval:
    """A mean, and where it lies 95 times in 100."""

    mean: float
    low: float
    high: float
    number: int
    """Of how many."""


# Shares and means


def wilson(part: int, whole: int, z: float = Z) -> Bounds:
    """Wilson's interval (1927) of a share of which `part` of `whole` were seen; (0, 1) of none. Raises ValueError.

    8 of 10: (0.8 + z²/20 ± z √(0.016 + z²/400)) / (1 + z²/10) = (0.9921 ± 0.3135) / 1.3842.

    >>> [round(edge, 4) for edge in wilson(8, 10)]
    [0.4902, 0.9433]
    """
    if not 0 <= part <= whole:
        raise ValueError(f"{part} of {whole} is no share")
    if not whole:
        return Bounds(0.0, 1.0)
    seen, spread = part / whole, z * z / whole
    middle = seen + spread / 2
    reach = z * math.sqrt(seen * (1 - seen) / whole + spread / (4 * whole))
    return Bounds(max(0.0, (middle - reach) / (1 + spread)), min(1.0, (middle + reach) / (1 + spread)))


def mean(values: Sequence[float]) -> float:
    """Their mean. Raises ValueError where there is none.

    >>> mean([1.0, 3.0])
    2.0
    """
    if not values:
        raise ValueError("the mean of nothing")
    return sum(values) / len(values)


def standard_error(values: Sequence[float]) -> float:
    """The standard error of their mean; 0 of a single value, of which nothing can be said.

    Of 1 and 3: the variance is (1 + 1) / (2 − 1) = 2, and √(2 / 2) = 1.

    >>> standard_error([1.0, 3.0])
    1.0
    """
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    return math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))


def share(claims: Sequence[bool]) -> float:
    """The share of claims that hold. Raises ValueError where there is none.

    >>> share([True, False, True, True])
    0.75
    """
    return mean([float(claim) for claim in claims])


# Bootstrap


def bootstrap(changes: Sequence[float]) -> Interval:
    """The mean of paired changes with its percentile bootstrap interval (Efron 1979). Raises ValueError where there is
    none, or one is no number.

    Of 0 and 1 a resample of two is 0, ½ or 1, with the chances ¼, ½ and ¼: both ends are reached.

    >>> bootstrap([0.0, 1.0])
    Interval(mean=0.5, low=0.0, high=1.0, number=2)
    >>> found = bootstrap([0.1, 0.3, 0.2, 0.2])
    >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
    (0.2, 0.125, 0.275)
    """
    row = np.array([_checked(changes)], dtype=np.float64)
    return _ratio(row, np.ones_like(row), len(changes), LEVEL)


class Pair(NamedTuple):
    """Which value is compared with which: the same seed and the same prompt.

    Where prompts are asked with every seed, neither a seed's values nor a prompt's are independent of each other. Seeds
    and prompts are both drawn anew, and a value counts as often as its seed times as often as its prompt was drawn: the
    pigeonhole bootstrap (Owen 2007, arXiv:0712.1111), honest towards the wide side. With one seed only the prompts are
    drawn anew, and nothing is known of how another seed would do.
    """

    seed: int
    prompt: str


Values = Mapping[Pair, float]


def average(values: Values, *, level: float = LEVEL) -> Interval:
    """Their mean with its interval. Raises ValueError where there is none, or one is no number.

    >>> average({Pair(1, "a"): 0.5, Pair(1, "b"): 0.5})
    Interval(mean=0.5, low=0.5, high=0.5, number=2)
    """
    _checked(list(values.values()))
    top, weight = _tables([values, dict.fromkeys(values, 1.0)])
    return _ratio(top, weight, len(values), level)


def difference(values: Values, others: Values, *, level: float = LEVEL) -> Interval:
    """The mean of values − others, pair by pair. Raises ValueError where their pairs differ.

    >>> difference({Pair(1, "a"): 1.0, Pair(1, "b"): 0.5}, {Pair(1, "a"): 0.5, Pair(1, "b"): 0.0}).low
    0.5
    """
    _require_same_pairs(values, others)
    return average({pair: value - others[pair] for pair, value in values.items()}, level=level)


def ratio(values: Values, others: Values, *, level: float = LEVEL) -> Interval:
    """The mean of the values as a share of the mean of the others, both over the same draws of pairs.

    Raises ValueError where their pairs differ, or the others' mean is not above 0. By hand: (1 + ½) / (2 + 1) = ½.

    >>> ratio({Pair(1, "a"): 1.0, Pair(1, "b"): 0.5}, {Pair(1, "a"): 2.0, Pair(1, "b"): 1.0}).mean
    0.5
    """
    _require_same_pairs(values, others)
    _checked([*values.values(), *others.values()])
    if sum(others.values()) <= 0:
        raise ValueError("nothing was there, so no share of it was kept")
    top, bottom = _tables([values, others])
    return _ratio(top, bottom, len(values), level)


def _tables(columns: Sequence[Values]) -> list[Numbers]:
    """Each as a table, (S seeds, P prompts), 0 where there is no such pair; in one order, whatever theirs."""
    seeds = {seed: row for row, seed in enumerate(sorted({pair.seed for pair in columns[0]}))}
    prompts = {prompt: column for column, prompt in enumerate(sorted({pair.prompt for pair in columns[0]}))}
    tables = []
    for values in columns:
        table = np.zeros((len(seeds), len(prompts)))
        for pair, value in values.items():
            table[seeds[pair.seed], prompts[pair.prompt]] = value
        tables.append(table)
    return tables


def _ratio(top: Numbers, bottom: Numbers, number: int, level: float) -> Interval:
    """Σ top / Σ bottom with its percentile interval; both (S, P)."""
    tops, bottoms = _drawn(top), _drawn(bottom)
    has_pairs = bottoms > 0  # where prompts differ from seed to seed, a draw may hold no pair at all
    low, high = np.quantile(tops[has_pairs] / bottoms[has_pairs], [(1 - level) / 2, (1 + level) / 2])
    seen = float(top.sum() / bottom.sum())
    return Interval(seen, min(float(low), seen), max(float(high), seen), number)


def _drawn(table: Numbers) -> Numbers:
    """The sum of an (S, P) table in each of the D draws, (D,)."""
    of_seed, of_prompt = _draws(*table.shape)
    if len(table) == 1:  # each draw has it once: one product, where a table of D rows would be written and read twice
        drawn: Numbers = of_prompt @ table[0]
    else:
        drawn = ((of_seed @ table) * of_prompt).sum(axis=1)
    return drawn


@lru_cache(maxsize=8)
def _draws(seeds: int, prompts: int) -> tuple[Numbers, Numbers]:
    """How often each seed, (D, S), and each prompt, (D, P), is drawn in each of D draws: always the same ones."""
    chance = np.random.default_rng(SEED)
    of_seed = chance.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS)
    of_prompt = chance.multinomial(prompts, np.full(prompts, 1 / prompts), size=DRAWS)
    return of_seed.astype(np.float64), of_prompt.astype(np.float64)


def _require_same_pairs(values: Values, others: Values) -> None:
    if values.keys() != others.keys():
        odd = sorted(values.keys() ^ others.keys())
        raise ValueError(f"not the same pairs: {len(odd)} stand on one side only, the first is {tuple(odd[0])}")


def _checked(values: Sequence[float]) -> Sequence[float]:
    if not values:
        raise ValueError("no value, no mean")
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is no number")
    return values
