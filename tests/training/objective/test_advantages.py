"""The one number a token is taught by."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.objective.advantages import EDGES, combined, histogram, truncated_importance


def test_reward_and_clipped_teacher_gap_add_up():
    # gaps 0.5, −3 and 2, clipped at ±1 to 0.5, −1 and 1; the reward of −1 is added to each
    advantages = combined(
        torch.tensor([-1.0]),
        torch.tensor([1.0]),
        torch.tensor([[-0.5, -4.0, -1.0]]),
        torch.tensor([[-1.0, -1.0, -3.0]]),
        w_rl=1.0,
        w_opd=1.0,
        clip=1.0,
    )

    assert advantages.tolist() == [[-0.5, -2.0, 0.0]]


def test_the_weights_scale_each_signal():
    advantages = combined(
        torch.tensor([1.0]),
        torch.tensor([1.0]),
        torch.tensor([[-1.0]]),
        torch.tensor([[-4.0]]),
        w_rl=0.5,
        w_opd=2.0,
        clip=5.0,
    )

    assert advantages.tolist() == [[6.5]]  # 0.5 · 1 + 2 · 3


def test_without_a_teacher_nothing_takes_its_place():
    advantages = combined(
        torch.tensor([1.0, 0.0]),
        torch.tensor([0.0, 0.0]),
        torch.tensor([[math.nan, 7.0], [0.0, -9.0]]),
        torch.full((2, 2), -1.0),
        w_rl=1.0,
        w_opd=1.0,
        clip=1.0,
    )

    assert advantages.tolist() == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(("reward", "teacher"), [((2,), (1, 3)), ((1,), (1, 2))])
def test_shapes_that_disagree_raise(reward, teacher):
    with pytest.raises(ValueError):
        combined(
            torch.zeros(reward), torch.zeros(reward), torch.zeros(teacher), torch.zeros(1, 3), w_rl=1, w_opd=1, clip=1
        )


@given(st.integers(1, 4), st.integers(1, 6), st.floats(0, 3), st.floats(0, 3), st.floats(0.1, 5), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_it_equals_an_independent_reference(rows, tokens, w_rl, w_opd, clip, seed):
    draw = torch.Generator().manual_seed(seed)
    reward = torch.randint(-1, 2, (rows,), generator=draw).double()
    has_teacher = torch.randint(0, 2, (rows,), generator=draw).double()
    teacher, old = (-torch.rand(rows, tokens, generator=draw, dtype=torch.float64) * 8 for _ in range(2))

    advantages = combined(reward, has_teacher, teacher, old, w_rl=w_rl, w_opd=w_opd, clip=clip)

    for row in range(rows):
        for token in range(tokens):
            gap = max(-clip, min(clip, float(teacher[row, token] - old[row, token])))
            expected = w_rl * float(reward[row]) + w_opd * float(has_teacher[row]) * gap
            assert float(advantages[row, token]) == pytest.approx(expected, abs=1e-9)


def test_the_importance_weight_is_cut_above_only():
    # e^0.5 = 1.6487, e^3 cut at 2, e^−3 = 0.0498
    weight = truncated_importance(torch.tensor([[-0.5, -1.0, -4.0]]), torch.tensor([[-1.0, -4.0, -1.0]]), cap=2.0)

    assert weight[0].tolist() == pytest.approx([1.6487, 2.0, 0.0498], abs=1e-4)


def test_the_importance_weight_carries_no_gradient():
    logprobs = torch.tensor([[-1.0]], requires_grad=True)

    assert not truncated_importance(logprobs, torch.tensor([[-2.0]]), cap=2.0).requires_grad


def test_the_histogram_has_a_reward_in_the_middle_of_its_bin_and_loses_no_token():
    advantages = torch.tensor([-9.0, -2.0, -1.0, 0.0, 0.12, 0.125, 1.0, 1.0, 7.0])

    counts = histogram(advantages)

    # 17 bins around −2, −1.75, … 2: the middle one is the ninth, and 0.125 is the first number of the tenth
    assert len(counts) == len(EDGES) - 1 == 17
    assert {bin: count for bin, count in enumerate(counts) if count} == {0: 2, 4: 1, 8: 2, 9: 1, 12: 2, 16: 1}
    assert (EDGES[0], EDGES[4], EDGES[8], EDGES[-1]) == (-2.125, -1.125, -0.125, 2.125)


@given(st.lists(st.floats(-5, 5, width=32), max_size=50))
@settings(max_examples=60, deadline=None)
def test_every_token_is_counted_once_and_in_its_bin(values):
    counts = histogram(torch.tensor(values))

    expected = [0] * 17
    for value in values:
        expected[sum(value >= edge for edge in EDGES[1:-1])] += 1
    assert counts == expected
