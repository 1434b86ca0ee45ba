"""Pairs that a learner is supervised by, beside each other and alone."""

from __future__ import annotations

from functools import partial

import pytest

from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from tests.gpu_workers.learner.examples import PROMPT, RESPONSE, batch, gradients
from training.config import Recipe
from training.objective.updates import updates

RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


def test_one_seed_one_result(tiny_model):
    seen = []
    for _ in range(2):
        learner = Learner(tiny_model, dtype="float32", seed=11)
        list(updates(learner, batch(learner), RECIPE))
        seen.append(learner.score(PROMPT, RESPONSE))

    assert seen[0] == seen[1]


def test_the_objective_needs_no_more_than_the_scores(learner):
    kinds = []
    record = partial(_recorded, kinds)

    learner.forward_backward(batch(learner), record)

    assert kinds == [(1, 7), (1, 5), (1, 3)]  # those that begin alike beside each other


def _recorded(kinds, scores):
    kinds.append(tuple(scores.logprobs.shape))
    return scores.logprobs.sum() * 0.0, {}


BRANCHES = [([1, 5, 6, 40], [7, 8, 2]), ([1, 5, 6, 41, 42], [7, 2]), ([1, 5, 6, 40], [7, 9, 9, 2])]


def test_pairs_that_begin_alike_teach_what_they_teach_one_by_one(learner, rounding):
    """Gradients, not only losses: the shared beginning gathers them from all of its branches."""
    for pair in BRANCHES:
        learner.supervise([pair], scale=1 / 3)
    apart = gradients(learner)
    learner.optimizer.zero_grad()
    learner.micro_batch = 3
    figures = learner.supervise(BRANCHES)
    together = gradients(learner)

    # 1 5 6 once, then 40 7 with 8 2 and 9 9 2 behind it, and 41 42 7 2: 3 + 2 + 2 + 3 + 4.
    assert figures["computed"] == 14
    assert figures["loss"] == pytest.approx(
        -sum(sum(learner.score(*pair)) / len(pair[1]) for pair in BRANCHES) / 3, abs=rounding.logprob
    )
    rounding.assert_gradients(together, apart)


def test_answers_are_as_likely_beside_each_other_as_alone(learner, rounding):
    learner.micro_batch = 3

    for found, pair in zip(learner.logprobs(BRANCHES), BRANCHES, strict=True):
        assert found == pytest.approx(learner.score(*pair), abs=rounding.logprob)


def test_what_is_supervised_becomes_likelier(learner):
    before = learner.score(*BRANCHES[0])
    for _ in range(3):
        learner.supervise(BRANCHES)
        learner.optim_step(1e-2)

    assert sum(learner.score(*BRANCHES[0])) > sum(before) + 0.1


def test_every_weight_can_be_supervised(tiny_model):
    learner = Learner(tiny_model, lora=None, micro_batch=3)
    loss = learner.supervise(BRANCHES)["loss"]
    learner.optim_step(1e-3)

    assert learner.supervise(BRANCHES)["loss"] < loss


def test_only_the_layers_that_are_named_are_adapted(tiny_model):
    learner = Learner(tiny_model, dtype="float32", lora=LoraShape(targets=("q_proj", "up_proj"), layers=(1,)))

    assert learner.trainable()
    assert all(".layers.1." in name for name, _ in learner.trainable())


def test_a_pair_without_an_answer_is_refused(learner):
    with pytest.raises(ValueError, match="each pair has"):
        learner.supervise([([1, 2], [])])
