"""How sure a figure is."""

import doctest
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from environments.evidence import figures
from environments.evidence.figures import Pair, average, difference, first_gain, looks, ratio

shares = st.floats(0, 1, allow_nan=False)
pairs = st.dictionaries(
    st.builds(Pair, st.integers(1, 3), st.sampled_from([f"open-{at}" for at in range(8)])), shares, min_size=1
)


def grid(value, seeds=3, prompts=40):
    """A value for each seed and prompt."""
    return {Pair(seed, f"p{at}"): value(seed, at) for seed in range(1, seeds + 1) for at in range(prompts)}


def width(found):
    return found.high - found.low


def test_the_docstrings_hold():
    assert doctest.testmod(figures).failed == 0


@given(pairs)
def test_a_mean_lies_in_its_interval_and_the_interval_within_the_values(values):
    found = average(values)

    assert min(values.values()) - 1e-9 <= found.low <= found.mean <= found.high <= max(values.values()) + 1e-9
    assert found.number == len(values)


@given(pairs, st.randoms())
def test_the_order_in_which_replies_came_changes_nothing(values, chance):
    shuffled = list(values.items())
    chance.shuffle(shuffled)

    assert average(dict(shuffled)) == average(values)


@given(pairs)
def test_what_is_compared_with_itself_has_not_changed_and_is_kept_whole(values):
    change = difference(values, values)

    assert (change.mean, change.low, change.high) == (0, 0, 0)
    if sum(values.values()) > 0:
        kept = ratio(values, values)
        assert [kept.mean, kept.low, kept.high] == pytest.approx([1, 1, 1])


@given(pairs, st.floats(-1, 1))
def test_the_same_gain_on_every_pair_is_sure(values, gain):
    found = difference({pair: value + gain for pair, value in values.items()}, values)

    assert [found.low, found.high] == pytest.approx([gain, gain], abs=1e-9)


@given(pairs, st.sampled_from([0.5, 0.8, 0.95]))
def test_who_wants_to_be_surer_gets_a_wider_interval(values, level):
    assert width(average(values, level=level)) <= width(average(values, level=0.99)) + 1e-12


def test_a_prompt_asked_with_three_seeds_is_not_three_prompts():
    """Each prompt is easy or hard, whatever the seed: three seeds say no more than one, and the interval knows it."""
    easy = [random.Random(at).random() for at in range(40)]

    thrice, once = average(grid(lambda seed, at: easy[at])), average(grid(lambda seed, at: easy[at], seeds=1))
    naive = average({Pair(1, f"{seed}-{at}"): easy[at] for seed in range(3) for at in range(40)})

    assert width(thrice) == pytest.approx(width(once), rel=0.1)
    assert width(naive) < 0.7 * width(thrice)  # 120 independent values would be narrower by the root of 3: 0.58


def test_seeds_that_differ_as_wholes_widen_the_interval():
    """Seeds end at 0.2, 0.5 and 0.8 on every prompt: of 120 values none is in doubt but for its seed."""
    found = average(grid(lambda seed, at: 0.3 * seed - 0.1))

    assert (found.low, found.high) == pytest.approx((0.2, 0.8))  # thrice the worst, thrice the best: 1 draw in 27 each


def test_pairing_removes_what_prompts_have_in_common():
    hard = [random.Random(at).random() for at in range(40)]
    base = grid(lambda seed, at: hard[at])
    after = grid(lambda seed, at: hard[at] + 0.1 + 0.01 * (at % 3))

    assert width(difference(after, base)) < 0.1 * width(average(after))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """60 made runs with prompts and seeds of their own, true mean 0.5: at least 54 of 60 intervals of 95 % hold it."""
    held = 0
    for run in range(60):
        chance = random.Random(run)
        of_seed = [chance.gauss(0, 0.02) for _ in range(4)]
        of_prompt = [chance.gauss(0, 0.2) for _ in range(30)]
        truth = grid(lambda s, at, a=of_seed, b=of_prompt: 0.5 + a[s] + b[at], 3, 30)
        found = average({pair: value + chance.gauss(0, 0.2) for pair, value in truth.items()})
        held += found.low <= 0.5 <= found.high
    assert held >= 54


@pytest.mark.parametrize("compare", [difference, ratio])
def test_values_of_other_pairs_are_refused(compare):
    with pytest.raises(ValueError, match="2 stand on one side only, the first is \\(1, 'a'\\)"):
        compare({Pair(1, "a"): 1.0}, {Pair(1, "b"): 1.0})


def test_a_share_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing was there"):
        ratio({Pair(1, "a"): 0.0}, {Pair(1, "a"): 0.0})


@pytest.mark.parametrize("values", [{}, {Pair(1, "a"): float("nan")}])
def test_no_value_and_no_number_are_refused(values):
    with pytest.raises(ValueError):
        average(values)


def test_content_kept_is_a_ratio_of_means():
    """0.1 + 0.8 of 0.2 + 1.0: what had more to lose weighs more."""
    found = ratio({Pair(1, "a"): 0.1, Pair(1, "b"): 0.8}, {Pair(1, "a"): 0.2, Pair(1, "b"): 1.0})

    assert found.mean == pytest.approx(0.75)  # 0.9 / 1.2; the mean of the ratios 0.5 and 0.8 is 0.65


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
