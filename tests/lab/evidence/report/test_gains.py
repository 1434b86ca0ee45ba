"""When an arm first does better than the base."""

import doctest
import random

from core.statistics import Pair
from lab.evidence.report import gains
from lab.evidence.report.gains import first_gain, looks


def grid(value, seeds=3, prompts=40):
    """A value for each seed and prompt."""
    return {Pair(seed, f"p{at}"): value(seed, at) for seed in range(1, seeds + 1) for at in range(prompts)}


def width(found):
    return found.high - found.low


def test_the_docstrings_hold():
    assert doctest.testmod(gains).failed == 0


def test_looking_often_asks_for_more():
    """One look at 95 %, or the first of four at 98.75 %: the same change has a wider interval."""
    chance = random.Random(1)
    base = grid(lambda seed, at: 0.0, seeds=1)
    after = grid(lambda seed, at: chance.gauss(0.3, 1), seeds=1)

    alone, among = looks({4: after}, base)[0], looks(dict.fromkeys((4, 8, 12, 16), after), base)[0]

    assert width(among.change) > width(alone.change)


def test_the_first_gain_is_the_first_that_stays():
    base = grid(lambda seed, at: 0.5)
    up, same = grid(lambda seed, at: 0.7), base

    stays = first_gain(looks({4: same, 8: up, 12: up, 16: up}, base))
    assert stays is not None
    assert stays.update == 8
    again = first_gain(looks({4: up, 8: same, 12: up, 16: up}, base))
    assert again is not None
    assert again.update == 12  # what was gained after 4 updates was gone after 8
    assert first_gain(looks({4: up, 8: same}, base)) is None
    assert first_gain([]) is None
