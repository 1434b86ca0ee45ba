"""How sure a figure is."""

import doctest
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.statistics import Pair, average, bootstrap, difference, means, ratio, sequential, wilson

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
    for module in (means, sequential):
        found = doctest.testmod(module)
        assert found.attempted > 5
        assert not found.failed


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


@pytest.mark.parametrize(
    ("right", "measured", "low", "high"),
    [
        # (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n) with z = 1.96, z² = 3.8416
        # 8 of 10: (0.8 + 0.19208 ± 1.96 · √(0.016 + 0.009604)) / 1.38416 = (0.99208 ± 0.31363) / 1.38416
        (8, 10, 0.4902, 0.9433),
        (90, 100, 0.8256, 0.9448),  # (0.919208 ± 1.96 · √(0.0009 + 0.00009604)) / 1.038416
        (0, 20, 0.0, 0.1611),  # z²/n / (1 + z²/n) = 0.19208 / 1.19208
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilsons_interval(right, measured, low, high):
    found = wilson(right, measured)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_more_right_than_measured_is_no_share():
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12))
def test_a_bootstrap_holds_its_mean_and_is_the_same_each_time(changes):
    found = bootstrap(changes)
    assert min(changes) - 1e-9 <= found.low <= found.mean <= found.high <= max(changes) + 1e-9
    assert found == bootstrap(changes)


def test_a_bootstrap_is_the_average_over_one_seed():
    changes = [0.1, 0.4, -0.2, 0.3, 0.0]
    assert bootstrap(changes) == average({Pair(1, str(at)): change for at, change in enumerate(changes)})


def test_a_bootstrap_reaches_the_quantiles_of_the_binomial_law():
    # Of 100 changes half are 1 and half 0, a resample's sum is binomial(100, 1/2): its 2.5 % and 97.5 % quantiles are
    # 40 and 60, by its table, and 2000 draws find them to within one.
    found = bootstrap([0.0, 1.0] * 50)
    assert (found.low, found.high) == (pytest.approx(0.40, abs=0.011), pytest.approx(0.60, abs=0.011))


@pytest.mark.parametrize("changes", [[], [1.0, float("inf")]])
def test_a_bootstrap_of_nothing_or_of_no_number_is_refused(changes):
    with pytest.raises(ValueError):
        bootstrap(changes)
