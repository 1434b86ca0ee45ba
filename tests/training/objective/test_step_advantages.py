"""What the steps of agents' attempts are worth, on groups small enough to work out by hand."""

from __future__ import annotations

import math

import pytest

from training.objective.step_advantages import Attempt, LeftOut, step_advantages

ROOT2 = math.sqrt(2)
NEAR = {"abs": 1e-5}  # the 1e-6 beside the standard deviation moves an advantage by less


def tried(ending, outcome, *scores, group="till-7", **more):
    return Attempt(group, ending, outcome, scores, **more)


def solved(*scores, **more):
    return tried("solved", 1.0, *scores, **more)


def failed(*scores, **more):
    return tried("failed", -1.0, *scores, **more)


def worth(attempts, **how):
    """Each step's advantage, or the reason for none."""
    found = step_advantages(attempts, **how)
    return [[step.left_out if step.advantage is None else step.advantage for step in row] for row in found.steps]


def test_by_index_a_steps_value_is_standardised_among_the_attempts_that_came_to_it():
    # Step 0: values 1+1, -1+1, 1-1 = 2, 0, 0: mean 2/3, variance (16+4+4)/27 = 8/9, std 2√2/3.
    # 2: (4/3) / (2√2/3) = √2; 0: (-2/3) / (2√2/3) = -1/√2.
    # Step 1: 1+1 and -1+1 = 2, 0: mean 1, std 1.
    attempts = [solved(1, 1), solved(-1, -1), failed(1)]
    first, second, third = worth(attempts)
    assert first == pytest.approx([ROOT2, 1], **NEAR)
    assert second == pytest.approx([-1 / ROOT2, -1], **NEAR)
    assert third == pytest.approx([-1 / ROOT2], **NEAR)
    assert [[step.value for step in row] for row in step_advantages(attempts).steps] == [[2, 2], [0, 0], [0]]


def test_a_constant_bucket_teaches_nothing_and_its_neighbours_do():
    # Step 0: 1+1, 1+1: equal. Step 1: 1+1 = 2, -1+1 = 0: mean 1, std 1.
    assert worth([solved(1, 1), solved(1, -1)]) == [
        [LeftOut.CONSTANT, pytest.approx(1, **NEAR)],
        [LeftOut.CONSTANT, pytest.approx(-1, **NEAR)],
    ]


def test_values_that_rounding_alone_sets_apart_are_equal():
    # 0.7 + 0.1 and 0.6 + 0.2 differ by 1e-16.
    assert 0.7 + 0.1 != 0.6 + 0.2
    assert worth([tried("failed", 0.7, 0.1), tried("failed", 0.6, 0.2)]) == [[LeftOut.CONSTANT], [LeftOut.CONSTANT]]


def test_a_ragged_group_leaves_out_steps_to_which_one_attempt_came_alone():
    # Steps 2 and 3 are the first attempt's alone: kept raw they would be worth 2, whatever the others did.
    # Steps 0 and 1: 1+1 = 2 and 1-1 = 0: mean 1, std 1.
    assert worth([solved(1, 1, 1, 1), failed(1, 1)]) == [
        [pytest.approx(1, **NEAR)] * 2 + [LeftOut.SINGLE] * 2,
        [pytest.approx(-1, **NEAR)] * 2,
    ]


@pytest.mark.parametrize("baseline", ["outcome", "index", "pooled", "episode_plus_step"])
def test_an_attempt_without_a_peer_teaches_nothing(baseline):
    assert worth([solved(1, -1), failed(1, group="till-8")], baseline=baseline) == [
        [LeftOut.SHORT] * 2,
        [LeftOut.SHORT],
    ]


@pytest.mark.parametrize("baseline", ["outcome", "index", "pooled", "episode_plus_step"])
def test_a_failed_world_and_a_cancelled_attempt_move_no_mean(baseline):
    pair = [solved(1, 1), failed(1, -1)]
    beside = [*pair, tried("infra_error", None, 1, -1), tried("cancelled", None, -1)]
    found = worth(beside, baseline=baseline)
    assert found[:2] == worth(pair, baseline=baseline)
    assert found[2:] == [[LeftOut.INFRA_ERROR] * 2, [LeftOut.CANCELLED]]
    # And they are no peers: with them alone at its side an attempt has none.
    assert worth([pair[0], *beside[2:]], baseline=baseline)[0] == [LeftOut.SHORT] * 2


def test_an_attempt_cut_off_at_its_horizon_is_lost_and_one_cut_off_by_the_window_is_left_out():
    # Its verifier gave the first 0.5, and it counts as -1: values 0+1 = 1 and 0-1 = -1: mean 0, std 1.
    cut = tried("truncated", 0.5, 0)
    full = tried("truncated", None, 0, cut_by="context")
    assert worth([solved(0), cut, full]) == [
        [pytest.approx(1, **NEAR)],
        [pytest.approx(-1, **NEAR)],
        [LeftOut.TRUNCATED],
    ]
    # The other way round: solved against the one that filled its window.
    assert worth([solved(0), cut, full], horizon="left_out", context="lost") == [
        [pytest.approx(1, **NEAR)],
        [LeftOut.TRUNCATED],
        [pytest.approx(-1, **NEAR)],
    ]


def test_by_outcome_every_step_of_an_attempt_is_worth_the_same():
    # Outcomes 1, -1, -1: mean -1/3, variance (16+4+4)/27 = 8/9, std 2√2/3: (4/3)/(2√2/3) = √2, (-2/3)/… = -1/√2.
    first, second, third = worth([solved(-1, 1), failed(1), failed(0, 0, 0)], baseline="outcome")
    assert first == pytest.approx([ROOT2] * 2, **NEAR)
    assert second == pytest.approx([-1 / ROOT2], **NEAR)
    assert third == pytest.approx([-1 / ROOT2] * 3, **NEAR)
    assert worth([solved(1), solved(-1)], baseline="outcome") == [[LeftOut.CONSTANT], [LeftOut.CONSTANT]]


def test_pooled_compares_all_steps_of_a_group():
    # Values 1+1, -1+1 and 1-1, 0-1 = 2, 0, 0, -1: mean 1/4, squares 49/16 + 1/16 + 1/16 + 25/16 = 76/16,
    # variance 76/64, std √19/4: 2 → 7/√19, 0 → -1/√19, -1 → -5/√19.
    first, second = worth([solved(1, -1), failed(1, 0)], baseline="pooled")
    assert first == pytest.approx([7 / math.sqrt(19), -1 / math.sqrt(19)], **NEAR)
    assert second == pytest.approx([-1 / math.sqrt(19), -5 / math.sqrt(19)], **NEAR)
    assert worth([solved(1), solved(1)], baseline="pooled") == [[LeftOut.CONSTANT], [LeftOut.CONSTANT]]


def test_episode_plus_step_adds_the_outcome_among_attempts_to_the_score_among_steps():
    # Outcomes 1, -1: ±1. Scores 1, -1, 1, -1: mean 0, std 1: ±1. (1+1)/√2 = √2, (1-1)/√2 = 0, (-1-1)/√2 = -√2.
    first, second = worth([solved(1, -1), failed(1, -1)], baseline="episode_plus_step")
    assert first == pytest.approx([ROOT2, 0], **NEAR)
    assert second == pytest.approx([0, -ROOT2], **NEAR)
    # Equal outcomes: the scores alone, ±1/√2. Equal scores: the outcomes alone. Both equal: nothing.
    assert worth([solved(1), solved(-1)], baseline="episode_plus_step") == [
        [pytest.approx(1 / ROOT2, **NEAR)],
        [pytest.approx(-1 / ROOT2, **NEAR)],
    ]
    assert worth([solved(1), failed(1)], baseline="episode_plus_step") == [
        [pytest.approx(1 / ROOT2, **NEAR)],
        [pytest.approx(-1 / ROOT2, **NEAR)],
    ]
    assert worth([solved(1), solved(1)], baseline="episode_plus_step") == [[LeftOut.CONSTANT], [LeftOut.CONSTANT]]


def test_groups_do_not_know_each_other():
    # till-7: 2, 0 → ±1. till-8: 1+1, 1+1: equal. Taken together they would be neither.
    found = worth([solved(1), solved(1, group="till-8"), failed(1), solved(1, group="till-8")])
    assert found == [
        [pytest.approx(1, **NEAR)],
        [LeftOut.CONSTANT],
        [pytest.approx(-1, **NEAR)],
        [LeftOut.CONSTANT],
    ]


def test_figures_say_how_many_attempts_came_to_each_step_and_how_long_they_are():
    attempts = [
        solved(1, 1, 1),
        failed(1),
        tried("truncated", None, 0, 0, cut_by="context"),
        tried("infra_error", None, 1, 1, 1, 1),
        solved(1, 1, group="till-8"),
    ]
    figures = step_advantages(attempts).figures
    assert figures.buckets == {
        ("till-7", 0): 2, ("till-7", 1): 1, ("till-7", 2): 1, ("till-8", 0): 1, ("till-8", 1): 1,
    }  # fmt: skip
    assert figures.attempts_at == {0: 3, 1: 2, 2: 1}
    assert figures.mean_length == 2.0  # (3 + 1 + 2) / 3: neither the one that is left out nor the failed world
    assert figures.truncated_share == 0.25  # 1 of the 4 that the agent itself ended or filled
    assert figures.left_out == {
        LeftOut.SINGLE: 2, LeftOut.TRUNCATED: 2, LeftOut.INFRA_ERROR: 4, LeftOut.SHORT: 2,
    }  # fmt: skip


def test_attempts_without_steps_are_borne():
    nothing = step_advantages([solved(), failed()])
    assert nothing.steps == ((), ())
    assert nothing.figures.mean_length == 0.0
    assert step_advantages([]).steps == ()


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ("solved", None), ("failed", None), ("gave_up", None), ("infra_error", -1.0), ("cancelled", 0.0),
        ("solved", math.nan), ("solved", math.inf), ("failed", -1.5), ("won", 1.0),
    ],
)  # fmt: skip
def test_an_outcome_that_is_none_is_refused(ending, outcome):
    with pytest.raises(ValueError):
        tried(ending, outcome, 1)


@pytest.mark.parametrize("score", [math.nan, 1.5])
def test_a_score_that_is_none_is_refused(score):
    with pytest.raises(ValueError):
        solved(score)


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="absorbing"):
        step_advantages([solved(1)], baseline="absorbing")  # type: ignore[arg-type]
