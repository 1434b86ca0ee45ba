"""Blind choices: their interval, and when it is known."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from judge.tally import Tally

COUNTS = st.integers(0, 80)


@given(COUNTS, COUNTS)
def test_it_is_known_exactly_when_the_interval_has_left_one_half(first, second):
    low, high = Tally(first, second).interval
    assert (low > 0.5 or high < 0.5) == Tally(first, second).is_known


@given(COUNTS, COUNTS)
def test_the_interval_holds_what_was_seen_and_turns_with_the_sides(first, second):
    tally = Tally(first, second)
    low, high = tally.interval
    assert 0.0 <= low <= (tally.share if tally.share is not None else 0.5) <= high <= 1.0
    turned = Tally(second, first).interval
    assert abs(turned[0] - (1 - high)) < 1e-9
    assert abs(turned[1] - (1 - low)) < 1e-9


def test_looking_after_every_choice_is_wrong_no_oftener_than_promised():
    chance, wrong = random.Random(7), 0
    for _ in range(200):
        first = 0
        for number in range(1, 41):
            first += chance.random() < 0.7
            low, high = Tally(first, number - first).interval
            if not low <= 0.7 <= high:
                wrong += 1
                break
    assert wrong <= 10  # 5 % of 200, by Ville's inequality; a Wilson interval looked at as often misses far more
