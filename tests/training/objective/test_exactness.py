"""The objective against an independent reference: loops over Python floats, written from method.md, section 2.

Nothing here calls what it checks: the reference reads ids, masks and plain log-softmaxes of random logits, and works
out each recipe's loss term by term. Both run in float64 and agree within 1e-6; the gradient that autograd takes of the
code agrees with differences of the reference.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_workers.learner.scores import Scores
from training.config import PRESETS, Recipe
from training.objective import updates as the
from training.objective.updates import divergence, objective

RECIPES = {
    "binary": PRESETS["binary"],
    "opd": PRESETS["opd"],
    "combined": PRESETS["combined"],
    "topk": PRESETS["topk"],
    "topk, more ids than there are": PRESETS["topk"],
    "embedded": PRESETS["embedded"],
    "all weights odd": Recipe(w_rl=0.7, w_opd=1.3, distillation="topk", beta=0.3),
}

CONSTANTS = {
    "topk": {"TOP_K": 3},
    "all weights odd": {
        "TOP_K": 2,
        "TRUST": 0.4,
        "CLIP_LOW": 0.1,
        "CLIP_HIGH": 0.5,
        "IMPORTANCE_CAP": 1.2,
        "ADVANTAGE_CLIP": 0.3,
    },
}
"""Of the objective, where they are not its own."""


@pytest.fixture(autouse=True)
def constants(request):
    """Give the objective the constants of the recipe that the test is about."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    with ExitStack() as patched:
        for constant, value in CONSTANTS.get(params.get("name"), {}).items():
            patched.enter_context(mock.patch.object(the, constant, value))
        yield


@dataclass(frozen=True)
class Batch:
    """Random replies, B of T tokens over V ids, as float64 arrays; nothing in it is like anything else."""

    logits: np.ndarray  # (B, T, V) the policy's
    target_logits: np.ndarray  # (B, T, V) of the teacher, or of the base where there is none
    ids: np.ndarray  # (B, T)
    start: np.ndarray  # (B, T) log-probs of the served ids
    old: np.ndarray
    reference: np.ndarray
    teacher: np.ndarray
    mask: np.ndarray  # (B, T)
    rewards: np.ndarray  # (B, T)
    is_marked: bool
    """Whether rewards are those of single tokens; else a row has one."""
    has_teacher: np.ndarray  # (B,)
    weight: np.ndarray  # (B,)


def batch(seed: int, rows: int, tokens: int, vocabulary: int, *, is_marked: bool) -> Batch:
    draw = np.random.default_rng(seed)
    logits, target = (draw.normal(size=(rows, tokens, vocabulary)) * 2 for _ in range(2))
    ids = draw.integers(vocabulary, size=(rows, tokens))
    own = np.array([[log_softmax(logits[b, t])[ids[b, t]] for t in range(tokens)] for b in range(rows)])
    rewards = draw.integers(-1, 2, size=(rows, tokens)).astype(float)
    if not is_marked:
        rewards[:] = rewards[:, :1]
    return Batch(
        logits=logits,
        target_logits=target,
        ids=ids,
        start=own + draw.normal(size=own.shape) * 0.4,  # ratios on both sides of both clips
        old=own + draw.normal(size=own.shape) * 0.8,
        reference=own + draw.normal(size=own.shape),
        teacher=own + draw.normal(size=own.shape),
        mask=(draw.random(own.shape) < 0.7).astype(float),
        rewards=rewards,
        is_marked=is_marked,
        has_teacher=draw.integers(0, 2, size=rows).astype(float),
        weight=draw.random(rows) + 0.5,
    )


# The reference


def log_softmax(logits) -> list[float]:
    highest = max(logits)
    total = math.log(sum(math.exp(x - highest) for x in logits)) + highest
    return [x - total for x in logits]


def distance(p: list[float], q: list[float], recipe: Recipe) -> float:
    """KL(p || q) over the ids that the recipe looks at, and one bin for all the others."""
    if recipe.distillation == "vocabulary":
        return sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))
    looked_at = sorted(range(len(p)), key=p.__getitem__)[-min(the.TOP_K, len(p)) :]
    apart = sum(math.exp(p[v]) * (p[v] - q[v]) for v in looked_at)
    rest_p, rest_q = (max(1e-7, 1 - sum(math.exp(of[v]) for v in looked_at)) for of in (p, q))
    return apart + rest_p * (math.log(rest_p) - math.log(rest_q))


def expected(given: Batch, recipe: Recipe) -> float:
    """L of method.md, section 2: token means first, then the mean over replies in which a token learns."""
    rows, tokens = given.mask.shape
    policy, anchor, taught = [], [], []
    for b in range(rows):
        learning = [t for t in range(tokens) if given.mask[b, t]]
        if not learning:
            continue
        row_policy, row_anchor, row_taught = [], [], []
        for t in learning:
            logs = log_softmax(given.logits[b, t])
            own = logs[given.ids[b, t]]
            advantage = recipe.w_rl * given.rewards[b, t]
            if recipe.distillation == "token" and given.has_teacher[b]:
                gap = given.teacher[b, t] - given.start[b, t]
                advantage += recipe.w_opd * min(max(gap, -the.ADVANTAGE_CLIP), the.ADVANTAGE_CLIP)
            ratio = math.exp(own - given.start[b, t])
            held = min(max(ratio, 1 - the.CLIP_LOW), 1 + the.CLIP_HIGH)
            drift = min(math.exp(given.start[b, t] - given.old[b, t]), the.IMPORTANCE_CAP)
            row_policy.append(-drift * min(ratio * advantage, held * advantage))
            d = given.reference[b, t] - own
            row_anchor.append(math.exp(d) - 1 - d)
            if recipe.distillation != "token":
                row_taught.append(distance(logs, log_softmax(given.target_logits[b, t]), recipe))
        policy.append(given.weight[b] * sum(row_policy) / len(learning))
        anchor.append(given.weight[b] * sum(row_anchor) / len(learning))
        if row_taught:
            pull = recipe.w_opd if given.has_teacher[b] else the.TRUST
            taught.append(given.weight[b] * pull * sum(row_taught) / len(learning))
    count = max(1, len(policy))
    return (sum(policy) + recipe.beta * sum(anchor) + sum(taught)) / count


# The code


def scores(given: Batch, recipe: Recipe, logits: torch.Tensor) -> Scores:
    logs = logits.log_softmax(-1)
    target = torch.tensor(given.target_logits).log_softmax(-1)
    apart = divergence(recipe)
    zeros = torch.zeros(given.mask.shape, dtype=torch.float64)
    nothing = ~torch.tensor(given.has_teacher, dtype=torch.bool)[:, None]
    return Scores(
        logprobs=logs.gather(-1, torch.tensor(given.ids)[..., None]).squeeze(-1),
        distance=zeros if apart is None else apart(logs, target),
        behaviour_logprobs=torch.tensor(given.old),
        start_logprobs=torch.tensor(given.start),
        reference_logprobs=torch.tensor(given.reference),
        teacher_logprobs=torch.tensor(given.teacher).masked_fill(nothing, math.nan),  # what no teacher said
        mask=torch.tensor(given.mask),
        reward=torch.tensor(given.rewards if given.is_marked else given.rewards[:, 0]),
        has_teacher=torch.tensor(given.has_teacher),
        weight=torch.tensor(given.weight),
    )


def loss(given: Batch, recipe: Recipe, logits: torch.Tensor | None = None) -> torch.Tensor:
    given_logits = torch.tensor(given.logits) if logits is None else logits
    total, _ = objective(recipe)(scores(given, recipe, given_logits))
    return total


shapes = st.tuples(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 5), st.integers(2, 9))


@pytest.mark.parametrize("name", RECIPES)
@given(shape=shapes, is_marked=st.booleans())
@settings(max_examples=12, deadline=None)
def test_every_recipes_loss_is_the_references(name, shape, is_marked):
    seed, rows, tokens, vocabulary = shape
    given = batch(seed, rows, tokens, vocabulary, is_marked=is_marked)

    assert float(loss(given, RECIPES[name])) == pytest.approx(expected(given, RECIPES[name]), abs=1e-6)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("is_marked", [False, True])
def test_its_gradient_is_that_of_differences_of_the_reference(name, is_marked):
    recipe = RECIPES[name]
    given = batch(0, 3, 3, 5, is_marked=is_marked)
    logits = torch.tensor(given.logits, requires_grad=True)

    loss(given, recipe, logits).backward()

    step = 1e-6
    for at in np.ndindex(given.logits.shape):
        there, back = given.logits.copy(), given.logits.copy()
        there[at] += step
        back[at] -= step
        slope = (expected(replace(given, logits=there), recipe) - expected(replace(given, logits=back), recipe)) / (
            2 * step
        )
        assert float(logits.grad[at]) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("name", ["combined", "topk", "embedded"])
def test_autograd_checks_its_own_gradient(name):
    recipe = RECIPES[name]
    given = batch(11, 2, 2, 4, is_marked=False)
    logits = torch.tensor(given.logits, requires_grad=True)

    assert torch.autograd.gradcheck(lambda logits: loss(given, recipe, logits), (logits,), eps=1e-6, atol=1e-7)


def test_the_random_replies_meet_every_case():
    """The reference is worth what the cases are that it meets: both clips, both caps, with and without a teacher."""
    recipe = RECIPES["combined"]
    given = batch(0, 4, 4, 6, is_marked=True)
    own = scores(given, recipe, torch.tensor(given.logits)).logprobs.numpy()
    ratio, drift = np.exp(own - given.start), np.exp(given.start - given.old)
    gap = given.teacher - given.start

    assert (ratio < 1 - the.CLIP_LOW).any()
    assert (ratio > 1 + the.CLIP_HIGH).any()
    assert (drift > the.IMPORTANCE_CAP).any()
    assert (np.abs(gap[given.has_teacher > 0]) > 1).any()
    assert (np.abs(gap[given.has_teacher > 0]) < 1).any()
    assert 0 < given.has_teacher.sum() < len(given.has_teacher)
    assert 0 < given.mask.sum() < given.mask.size
    assert set(given.rewards[given.mask > 0]) == {-1.0, 0.0, 1.0}


# What must change nothing


@pytest.mark.parametrize("name", RECIPES)
@given(seed=st.integers(0, 2**31), keep=st.integers(1, 4))
@settings(max_examples=4, deadline=None)
def test_to_cut_a_reply_is_to_mask_its_rest(name, seed, keep):
    recipe = RECIPES[name]
    given = batch(seed, 3, 5, 6, is_marked=True)
    rest = given.mask.copy()
    rest[:, keep:] = 0.0
    long = ("logits", "target_logits", "ids", "start", "old", "reference", "teacher", "mask", "rewards")
    cut = replace(given, **{field: getattr(given, field)[:, :keep] for field in long})

    assert float(loss(cut, recipe)) == pytest.approx(float(loss(replace(given, mask=rest), recipe)), abs=1e-12)


@pytest.mark.parametrize("name", RECIPES)
@given(seed=st.integers(0, 2**31), order=st.permutations(range(4)))
@settings(max_examples=4, deadline=None)
def test_the_order_of_replies_means_nothing(name, seed, order):
    recipe = RECIPES[name]
    given = batch(seed, 4, 3, 6, is_marked=True)
    mixed = replace(
        given,
        **{
            field: getattr(given, field)[list(order)]
            for field in given.__dataclass_fields__
            if isinstance(getattr(given, field), np.ndarray)
        },
    )

    assert float(loss(mixed, recipe)) == pytest.approx(float(loss(given, recipe)), abs=1e-12)


@pytest.mark.parametrize("name", RECIPES)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=4, deadline=None)
def test_a_batch_is_the_mean_of_its_replies_one_by_one(name, seed):
    recipe = RECIPES[name]
    given = batch(seed, 4, 3, 6, is_marked=False)
    given.mask[:, 0] = 1.0  # a token learns in each: the mean is over effective samples
    apart = [
        float(
            loss(
                replace(
                    given,
                    **{
                        field: getattr(given, field)[b : b + 1]
                        for field in given.__dataclass_fields__
                        if isinstance(getattr(given, field), np.ndarray)
                    },
                ),
                recipe,
            )
        )
        for b in range(4)
    ]

    assert float(loss(given, recipe)) == pytest.approx(sum(apart) / 4, abs=1e-12)
