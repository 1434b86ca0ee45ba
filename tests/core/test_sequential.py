"""Sequential tests: how often they are wrong, what more evidence does, and figures that can be worked out by hand."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.statistics import ALPHA, Arm, Tally, compare, sequential

COUNTS = st.integers(0, 80)
votes = st.builds(Arm, st.integers(0, 60), st.integers(0, 60))


def test_five_votes_up_against_five_down_are_enough_and_four_are_not():
    # (B(k + 1/2, 1/2) / pi)^2 * 4^k: B(4.5, .5) = 35 pi/128 and B(5.5, .5) = 63 pi/256
    assert compare(Arm(0, 4), Arm(4, 0)).evidence == pytest.approx((35 / 128) ** 2 * 4**4)  # 19.1 < 1/0.05
    assert compare(Arm(0, 5), Arm(5, 0)).evidence == pytest.approx((63 / 256) ** 2 * 4**5)  # 62.0
    assert (compare(Arm(0, 4), Arm(4, 0)).low > 0, compare(Arm(0, 5), Arm(5, 0)).low > 0) == (False, True)


def test_one_vote_leaves_what_one_vote_can():
    # One arm alone, one vote up: M(p) = B(1.5, .5)/B(.5, .5)/p = 1/(2p), which is 20 at p = 0.025. The other arm, of
    # which nothing is known, may be at 0 or 1: the difference is at least 0.025 - 1.
    reading = compare(Arm(), Arm(1, 0))
    assert reading.low == pytest.approx(0.025 - 1)
    assert (reading.high, reading.verdict) == (1.0, "unknown")


def test_without_votes_nothing_is_known():
    reading = compare(Arm(), Arm())
    assert (reading.low, reading.high, reading.verdict) == (-1.0, 1.0, "unknown")
    assert reading.evidence == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("live", "candidate", "verdict"),
    [
        (Arm(30, 30), Arm(60, 2), "better"),
        (Arm(60, 2), Arm(30, 30), "worse"),
        (Arm(900, 100), Arm(905, 95), "no worse"),  # within ten points for sure, and no difference to be seen
        (Arm(9, 1), Arm(8, 2), "unknown"),
    ],
)
def test_each_verdict_has_its_evidence(live, candidate, verdict):
    assert compare(live, candidate).verdict == verdict


def first_alarm(draw: random.Random, rates: list[float], looks: int, share: float) -> bool:
    """Whether a test that is looked at after every vote ever says that two equal arms differ; each person of `rates`
    has a rate of their own, and many conversations."""
    counts = [0.0] * 4
    bound = math.log(1 / ALPHA)
    for _ in range(looks):
        arm = 2 if draw.random() < share else 0
        counts[arm + (draw.random() >= draw.choice(rates))] += 1
        ups, total = counts[0] + counts[2], sum(counts)
        p = ups / total  # the common rate that the votes speak least against, for a difference of nothing
        if sequential.log_ratio(*counts[:2], p) + sequential.log_ratio(*counts[2:], p) >= bound:
            return True
    return False


@pytest.mark.parametrize(
    ("rates", "share"), [([0.5], 0.5), ([0.8], 0.1), ([0.05, 0.95], 0.3)], ids=["even", "canary", "people differ"]
)
def test_equal_arms_are_hardly_ever_said_to_differ_however_often_one_looks(rates, share):
    draw = random.Random(6)
    # 200 trials of 200 votes, each looked at 200 times: at most 5 in 100 may go wrong, and 3.3 standard errors more.
    wrong = sum(first_alarm(draw, rates, 200, share) for _ in range(200))
    assert wrong / 200 <= 0.05 + 3.3 * math.sqrt(0.05 * 0.95 / 200)


def test_the_interval_holds_the_true_difference_at_every_look():
    draw, missed = random.Random(7), 0
    for _ in range(50):
        counts, held = [0.0] * 4, True
        for vote in range(120):
            arm, rate = (2, 0.85) if vote % 2 else (0, 0.6)
            counts[arm + (draw.random() >= rate)] += 1
            held = held and sequential.log_evidence(tuple(counts), 0.25) < math.log(20)
        missed += not held
    assert missed <= 2.5 + 3.3 * math.sqrt(50 * 0.05 * 0.95)


@settings(max_examples=30)
@given(votes, votes)
def test_a_thumb_that_turns_up_never_makes_the_candidate_look_worse(live, candidate):
    if candidate.downs:
        before, after = compare(live, candidate), compare(live, Arm(candidate.ups + 1, candidate.downs - 1))
        assert after.low >= before.low - 1e-9
        assert after.high >= before.high - 1e-9


@settings(max_examples=30)
@given(votes, votes)
def test_the_arms_may_change_places(one, other):
    there, back = (sequential.differences((a.ups, a.downs, b.ups, b.downs)) for a, b in ((one, other), (other, one)))
    assert there == pytest.approx((-back[1], -back[0]), abs=1e-9)


@settings(max_examples=30)
@given(votes, votes)
def test_the_verdict_is_what_the_interval_says_and_what_is_needed_agrees(live, candidate):
    reading = compare(live, candidate)
    assert reading.low <= reading.high
    assert (reading.needed == 0) == (reading.verdict != "unknown")


def test_twice_the_votes_at_the_same_rates_need_fewer_more():
    few, more = compare(Arm(12, 8), Arm(12, 8)), compare(Arm(120, 80), Arm(120, 80))
    assert few.needed is not None
    assert more.needed is not None
    assert more.needed < few.needed


def test_votes_below_nothing_are_refused():
    with pytest.raises(ValueError, match="no votes"):
        Arm(-1, 0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        compare(Arm(), Arm(), alpha=0.0)


# Choices between two sides


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


def test_choices_six_to_none_need_one_more_as_by_hand():
    # B(k + 1/2, 1/2)/pi * 2^k: for k = 6 it is 231/1024 * 64 = 14.4, for k = 7 it is 429/2048 * 128 = 26.8
    assert Tally(6, 0).evidence == pytest.approx(231 / 1024 * 2**6)
    assert (Tally(6, 0).needed, Tally(7, 0).needed) == (1, 0)


@pytest.mark.parametrize("enough", [1, 2, 3, 64, 65, 4097, 5000])
def test_the_fewest_votes_that_are_needed_are_exact_up_to_the_most(enough):
    assert sequential._fewest(lambda number: number >= enough, 5000) == enough
    assert sequential._fewest(lambda number: False, 5000) is None
