"""How sure a figure is: means, differences and ratios with bootstrap intervals over seeds and prompts. Pure.

The same prompts are asked of every arm and, where personas allow, with every seed, so a value belongs to a seed and to
a prompt at once, and neither a seed's values nor a prompt's are independent of each other. Seeds and prompts are both
drawn anew, each with replacement, and a value counts as often as its seed times as often as its prompt was drawn: the
pigeonhole bootstrap (Owen 2007, arXiv:0712.1111). It is honest towards the wide side. With one seed only the prompts
are drawn anew, and nothing is known of how another seed would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.bootstrap import DRAWS, LEVEL, SEED, Interval

Numbers = NDArray[np.float64]


class Pair(NamedTuple):
    """Which value is compared with which: the same seed and the same prompt."""

    seed: int
    prompt: str


Values = Mapping[Pair, float]


def average(values: Values, *, level: float = LEVEL) -> Interval:
    """Their mean with its interval. Raises ValueError where there is none.

    >>> average({Pair(1, "a"): 0.5, Pair(1, "b"): 0.5})
    Interval(mean=0.5, low=0.5, high=0.5, number=2)
    """
    top, weight = _tables([_checked(values), dict.fromkeys(values, 1.0)])
    return _ratio(top, weight, len(values), level)


def difference(values: Values, others: Values, *, level: float = LEVEL) -> Interval:
    """The mean of values − others, pair by pair. Raises ValueError where their pairs differ.

    >>> difference({Pair(1, "a"): 1.0, Pair(1, "b"): 0.5}, {Pair(1, "a"): 0.5, Pair(1, "b"): 0.0}).low
    0.5
    """
    _agree(values, others)
    return average({pair: value - others[pair] for pair, value in values.items()}, level=level)


def ratio(values: Values, others: Values, *, level: float = LEVEL) -> Interval:
    """The mean of the values as a share of the mean of the others, both over the same draws of pairs.

    Raises ValueError where their pairs differ, or the others' mean is not above 0.

    >>> ratio({Pair(1, "a"): 1.0, Pair(1, "b"): 0.5}, {Pair(1, "a"): 2.0, Pair(1, "b"): 1.0}).mean
    0.5
    """
    _agree(values, others)
    if sum(others.values()) <= 0:
        raise ValueError("nothing was there, so no share of it was kept")
    top, bottom = _tables([_checked(values), _checked(others)])
    return _ratio(top, bottom, len(values), level)


@dataclass(frozen=True)
class Look:
    """One probe, held against the base."""

    update: int
    change: Interval
    """At the level that is left for one look."""

    @property
    def is_gain(self) -> bool:
        return self.change.low > 0


def looks(probes: Mapping[int, Values], base: Values, *, level: float = LEVEL) -> list[Look]:
    """Each probe's paired difference with the base, in order.

    Who looks n times and takes the first gain is wrong n times as often, so each interval is one of level
    1 − (1 − level) / n (Bonferroni): all of them hold together at `level`.

    >>> [look.is_gain for look in looks({4: {Pair(1, "a"): 1.0}, 8: {Pair(1, "a"): 2.0}}, {Pair(1, "a"): 1.0})]
    [False, True]
    """
    each = 1 - (1 - level) / max(len(probes), 1)
    return [Look(update, difference(values, base, level=each)) for update, values in sorted(probes.items())]


def first_gain(found: Sequence[Look]) -> Look | None:
    """The first look that shows a gain and whose later looks all show one too: a gain that goes again is none."""
    first = None
    for look in reversed(found):
        if not look.is_gain:
            break
        first = look
    return first


def _tables(columns: Sequence[Values]) -> list[Numbers]:
    """Each as a table of sums, (S seeds, P prompts), 0 where there is no such pair; in one order, whatever theirs."""
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
    """Σ top / Σ bottom with its percentile interval; both (S, P). The same tables, the same interval."""
    of_seed, of_prompt = _draws(*top.shape)
    tops = ((of_seed @ top) * of_prompt).sum(axis=1)
    bottoms = ((of_seed @ bottom) * of_prompt).sum(axis=1)
    drawn = bottoms > 0  # where prompts differ from seed to seed, a draw may hold no pair at all
    low, high = np.quantile(tops[drawn] / bottoms[drawn], [(1 - level) / 2, (1 + level) / 2])
    mean = float(top.sum() / bottom.sum())
    return Interval(mean, min(float(low), mean), max(float(high), mean), number)


@lru_cache(maxsize=8)
def _draws(seeds: int, prompts: int) -> tuple[Numbers, Numbers]:
    """How often each seed, (D, S), and each prompt, (D, P), is drawn in each of D draws: always the same ones."""
    chance = np.random.default_rng(SEED)
    of_seed = chance.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS)
    of_prompt = chance.multinomial(prompts, np.full(prompts, 1 / prompts), size=DRAWS)
    return of_seed.astype(np.float64), of_prompt.astype(np.float64)


def _agree(values: Values, others: Values) -> None:
    if values.keys() != others.keys():
        odd = sorted(values.keys() ^ others.keys())
        raise ValueError(f"not the same pairs: {len(odd)} stand on one side only, the first is {tuple(odd[0])}")


def _checked(values: Values) -> Values:
    if not values:
        raise ValueError("no value, no mean")
    if not np.isfinite(list(values.values())).all():
        raise ValueError("a value is no number")
    return values
