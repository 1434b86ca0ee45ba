"""The losses, by worked numbers, by properties, and against an independent float64 reference."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.objective.losses import divergence, kl_loss, log_tail, policy_loss, reverse_kl, sequence_mean

shapes = st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(2, 12), st.integers(0, 2**31))


def batch(shape: tuple[int, int, int, int], dtype=torch.float32):
    """Random log-probs, two sides of them, and a mask that may leave whole rows out."""
    rows, tokens, vocabulary, seed = shape
    draw = torch.Generator().manual_seed(seed)

    def logs():
        return torch.randn(rows, tokens, vocabulary, generator=draw, dtype=torch.float64).mul(2).log_softmax(-1)

    mask = (torch.rand(rows, tokens, generator=draw) < 0.7).double()
    return logs().to(dtype), logs().to(dtype), mask.to(dtype), draw


def mean_of_means(values, mask) -> float:
    """sequence_mean, once more and slowly: lists of Python floats."""
    means = []
    for row, kept in zip(values.double().tolist(), mask.tolist(), strict=True):
        chosen = [value for value, keep in zip(row, kept, strict=True) if keep]
        if chosen:
            means.append(sum(chosen) / len(chosen))
    return sum(means) / len(means) if means else 0.0


# sequence_mean


def test_long_and_short_replies_weigh_the_same():
    values = torch.tensor([[1.0, 1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])

    assert sequence_mean(values, mask) == 3.0  # (1 + 5) / 2, not 9 / 5


def test_a_sequence_without_a_token_to_learn_from_is_not_counted():
    values, mask = torch.tensor([[4.0], [100.0]]), torch.tensor([[1.0], [0.0]])

    assert sequence_mean(values, mask) == 4.0


def test_nothing_at_all_gives_zero_and_a_zero_gradient():
    values = torch.tensor([[3.0, 4.0]], requires_grad=True)

    loss = sequence_mean(values, torch.zeros(1, 2))
    loss.backward()

    assert loss == 0.0
    assert values.grad.tolist() == [[0.0, 0.0]]


def test_what_lies_under_the_mask_never_matters_nan_included():
    values = torch.tensor([[2.0, math.nan]], requires_grad=True)

    loss = sequence_mean(values, torch.tensor([[1.0, 0.0]]))
    loss.backward()

    assert loss == 2.0
    assert values.grad.tolist() == [[1.0, 0.0]]


def test_weights_scale_each_sequence():
    values, mask = torch.tensor([[2.0], [4.0]]), torch.ones(2, 1)

    assert sequence_mean(values, mask, torch.tensor([1.0, 0.5])) == 2.0  # (2 + 4 · 0.5) / 2


@given(shapes)
@settings(max_examples=50, deadline=None)
def test_sequence_mean_equals_the_slow_one(shape):
    logs, _, mask, _ = batch(shape)

    assert float(sequence_mean(logs[..., 0], mask)) == pytest.approx(mean_of_means(logs[..., 0], mask), abs=1e-6)


# policy_loss


def test_on_policy_the_loss_is_minus_the_mean_advantage():
    logprobs, mask = torch.tensor([[-1.0, -2.0]]), torch.ones(1, 2)

    loss, metrics = policy_loss(logprobs, logprobs, torch.tensor([[1.0, -3.0]]), mask, clip_low=0.2, clip_high=0.28)

    assert loss == 1.0  # −(1 − 3) / 2
    assert metrics["clip_fraction"] == 0.0
    assert metrics["ratio_mean"] == 1.0


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate"),
    [
        (1.5, 1.0, 1.28),  # already likelier by more than the clip: no further reward for it
        (1.5, -1.0, -1.5),  # likelier though it was bad: the whole penalty
        (0.5, 1.0, 0.5),  # less likely though it was good: pulled back
        (0.5, -1.0, -0.8),  # already less likely by more than the clip
        (1.1, 2.0, 2.2),  # within the clip
    ],
)
def test_the_clip_is_asymmetric_and_never_hides_a_mistake(ratio, advantage, surrogate):
    logprobs = torch.tensor([[math.log(ratio)]])

    loss, _ = policy_loss(
        logprobs, torch.zeros(1, 1), torch.tensor([[advantage]]), torch.ones(1, 1), clip_low=0.2, clip_high=0.28
    )

    assert float(loss) == pytest.approx(-surrogate, abs=1e-6)


def test_a_clipped_token_has_no_gradient_and_is_counted():
    logprobs = torch.tensor([[math.log(1.5), 0.0]], requires_grad=True)

    loss, metrics = policy_loss(
        logprobs, torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2), clip_low=0.2, clip_high=0.28
    )
    loss.backward()

    assert logprobs.grad.tolist() == [[0.0, -0.5]]  # the second: −ρA / 2 tokens
    assert metrics["clip_fraction"] == 0.5
    assert float(metrics["ratio_max"]) == pytest.approx(1.5)


def test_importance_weights_scale_the_surrogate():
    ones = torch.ones(1, 2)

    loss, _ = policy_loss(-ones, -ones, ones, ones, importance=torch.tensor([[2.0, 0.5]]))

    assert loss == -1.25


@given(shapes)
@settings(max_examples=50, deadline=None)
def test_policy_loss_equals_an_independent_reference(shape):
    logs, old, mask, draw = batch(shape, torch.float64)
    logprobs, start_logprobs = logs[..., 0], old[..., 0]
    advantages = torch.randn(mask.shape, generator=draw, dtype=torch.float64)

    loss, _ = policy_loss(logprobs, start_logprobs, advantages, mask, clip_low=0.2, clip_high=0.28)

    slow = torch.zeros_like(mask)
    for row in range(mask.shape[0]):
        for token in range(mask.shape[1]):
            rho = math.exp(float(logprobs[row, token] - start_logprobs[row, token]))
            a = float(advantages[row, token])
            slow[row, token] = -min(rho * a, min(max(rho, 0.8), 1.28) * a)
    assert float(loss) == pytest.approx(mean_of_means(slow, mask), abs=1e-6)


def test_gradients_agree_with_finite_differences():
    logs, old, mask, draw = batch((3, 4, 6, 7), torch.float64)
    mask[0] = 1.0
    advantages = torch.randn(mask.shape, generator=draw, dtype=torch.float64)
    logits = logs.clone().requires_grad_()

    def policy(logits):
        chosen = logits.log_softmax(-1)[..., 0]
        return policy_loss(chosen, old[..., 0], advantages, mask, clip_low=0.2, clip_high=0.28)[0]

    def anchor(logits):
        return kl_loss(logits.log_softmax(-1)[..., 0], old[..., 0], mask)[0]

    def distil(logits):
        return sequence_mean(divergence(logits.log_softmax(-1), old, k=3), mask)

    def whole(logits):
        return sequence_mean(divergence(logits.log_softmax(-1), old, k=None), mask)

    for function in (policy, anchor, distil, whole):
        assert torch.autograd.gradcheck(function, (logits,), eps=1e-6, atol=1e-7)


# kl_loss


def test_k3_of_a_worked_number():
    # d = log π_ref − log π = ln 2: exp(d) − 1 − d = 2 − 1 − 0.693147 = 0.306853
    loss, metrics = kl_loss(torch.tensor([[-2.0]]), torch.tensor([[-2.0 + math.log(2)]]), torch.ones(1, 1))

    assert float(loss) == pytest.approx(0.306853, abs=1e-6)
    assert float(metrics["kl"]) == pytest.approx(0.306853, abs=1e-6)


def test_k3_keeps_its_digits_where_the_policies_nearly_agree():
    d = 1e-4  # d² / 2 = 5e-9; exp(d) − 1 − d in float32 would give 0 or 6e-8

    loss, _ = kl_loss(torch.tensor([[0.0]]), torch.tensor([[d]]), torch.ones(1, 1))

    assert float(loss) == pytest.approx(5e-9, rel=0.01)


@given(shapes)
@settings(max_examples=50, deadline=None)
def test_k3_is_never_negative_and_equals_the_reference(shape):
    logs, ref, mask, _ = batch(shape, torch.float64)

    loss, _ = kl_loss(logs[..., 0], ref[..., 0], mask)

    d = ref[..., 0] - logs[..., 0]
    assert float(loss) >= 0.0
    assert float(loss) == pytest.approx(mean_of_means(d.exp() - 1 - d, mask), abs=1e-6)


# top-k distillation


def test_reverse_kl_of_a_worked_number():
    # student 0.5, 0.2 and a tail of 0.3; teacher 0.25, 0.25 and a tail of 0.5
    # 0.5 ln(2) + 0.2 ln(0.8) + 0.3 ln(0.6) = 0.346574 − 0.044629 − 0.153248 = 0.148697
    student, teacher = torch.tensor([0.5, 0.2]).log(), torch.tensor([0.25, 0.25]).log()

    assert float(reverse_kl(student, teacher)) == pytest.approx(0.148697, abs=1e-5)


def test_where_there_are_no_more_than_k_ids_all_are_taken():
    student, teacher = torch.tensor([[[0.5, 0.2]]]).log(), torch.tensor([[[0.25, 0.25]]]).log()

    assert divergence(student, teacher, k=50).tolist() == [[pytest.approx(0.148697, abs=1e-5)]]


def test_the_tail_stays_finite_when_k_holds_everything():
    assert float(log_tail(torch.tensor([0.5, 0.5]).log())) == pytest.approx(math.log(1e-7), rel=0.2)


def test_top_k_looks_at_the_students_ids():
    student, teacher = torch.tensor([0.6, 0.3, 0.1]).log(), torch.tensor([0.1, 0.3, 0.6]).log()

    # The student's first id and a tail of 0.4 beside 0.9: 0.6 ln(6) + 0.4 ln(4/9) = 1.075056 − 0.324372 = 0.750684
    assert float(divergence(student, teacher, k=1)) == pytest.approx(0.750684, abs=1e-5)


@given(shapes, st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_top_k_is_a_lower_bound_that_is_zero_only_where_the_bins_agree(shape, k):
    logs, teacher, _, _ = batch(shape, torch.float64)

    part, whole = divergence(logs, teacher, k=k), divergence(logs, teacher, k=None)

    assert bool((part >= -1e-9).all())
    assert bool((part <= whole + 1e-6).all())
    assert float(divergence(logs, logs, k=k).abs().max()) == pytest.approx(0.0, abs=1e-9)


@given(shapes, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_top_k_equals_an_independent_reference(shape, k):
    logs, teacher, mask, _ = batch(shape, torch.float64)

    found = divergence(logs, teacher, k=k)

    for row in range(mask.shape[0]):
        for token in range(mask.shape[1]):
            p, q = logs[row, token].tolist(), teacher[row, token].tolist()
            ids = sorted(range(len(p)), key=p.__getitem__)[-k:]
            value = sum(math.exp(p[i]) * (p[i] - q[i]) for i in ids)
            tail = math.log(max(1e-7, 1 - sum(math.exp(p[i]) for i in ids)))
            teacher_tail = math.log(max(1e-7, 1 - sum(math.exp(q[i]) for i in ids)))
            expected = value + math.exp(tail) * (tail - teacher_tail)
            assert float(found[row, token]) == pytest.approx(expected, abs=1e-6)


def test_the_gradient_moves_mass_to_what_the_teacher_prefers():
    logits = torch.tensor([[[0.1, 0.0, 0.0, 0.0]]], requires_grad=True)
    teacher = torch.tensor([[[3.0, 0.0, 0.0, 0.0]]]).log_softmax(-1)

    divergence(logits.log_softmax(-1), teacher, k=2).sum().backward()

    assert logits.grad[0, 0, 0] < 0 < logits.grad[0, 0, 1]  # downhill raises the first id and lowers the others
