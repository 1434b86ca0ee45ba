"""An agent learns by playing, with the engine, the renderer, the world, the estimator and the learner as they are.

What is claimed is that it learns, by outcomes and by steps, and by noise it does not. How far the arms are apart is in
docs/explanation/agents-demonstration.md: too little for two seeds to tell.
"""

from __future__ import annotations

import random

import pytest
import torch

from environments.worlds.base import Outcome
from environments.worlds.till import Till
from gpu_workers.learner.learner import Learner
from lab.worlds.playing import Played, Player, Reply
from lab.worlds.rails import ARMS, Batch, curves, examples_of
from lab.worlds.rows import TILL
from training.objective.merged_rows import Step, merged_rows

pytestmark = pytest.mark.timeout(900)  # 70 s of one core to warm up, 17 s an arm: a busy machine takes longer

HELD_OUT = 200
"""Tasks: at a success of 0.35 a standard deviation is 0.034, at 0.06 it is 0.017."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    return TILL.tiny(tmp_path_factory.mktemp("tiny"))


def attempt(scores, ending):
    value = {"solved": 1.0, "failed": -1.0}[ending]
    replies, prompt = [], [5]
    for n in range(len(scores)):
        replies.append(Reply(list(prompt), [10 + n, 1], [-0.5, -0.25]))
        prompt += [10 + n, 1, 7]
    return Played(Till().task("train", 0), replies, list(scores), Outcome(ending, value))


def test_an_attempt_is_one_row_and_each_step_has_its_own_advantage():
    played = [attempt([1.0, 1.0], "solved"), attempt([1.0, -1.0], "failed")]
    # Values by step: 1 + 1 and 1 - 1, then 1 + 1 and -1 - 1. Of two, the better is one standard deviation above.
    one, other = examples_of(played, ARMS["index"], random.Random(0))
    assert one.response_ids == [10, 1, 7, 11, 1]
    assert one.mask == [1, 1, 0, 1, 1]
    assert one.rewards == pytest.approx([1, 1, 0, 1, 1], abs=1e-5)
    assert other.rewards == pytest.approx([-1, -1, 0, -1, -1], abs=1e-5)
    assert examples_of([played[0], played[0]], ARMS["index"], random.Random(0)) == []  # all equal: nothing to learn


def test_an_arm_turns_over_the_scores_that_are_wrong():
    played = [attempt([score] * 8, "failed") for score in (1.0, -1.0)] * 200
    rows = examples_of(played, ARMS["right_85"], random.Random(0))
    kept = [row.rewards[0] > 0 for row in rows[::2]]
    assert abs(sum(kept) / len(kept) - 0.85) < 0.06  # 200 coins of 0.85: a standard deviation is 0.025


@pytest.mark.processes
def test_what_is_played_is_what_is_learned(model):
    """Turns of an attempt make one row, as prompts go on from each other, and the learner says of each token what the
    engine said."""
    world = Till()
    with Player(model) as player:
        played = player.play(world, world.tasks("train", 8, 0), 0)
        again = player.play(world, world.tasks("train", 8, 0), 0)
    assert [[reply.ids for reply in one.replies] for one in played] == [
        [reply.ids for reply in one.replies] for one in again
    ]
    steps = [[Step(reply.prompt_ids, reply.ids, reply.logprobs, advantage=1.0) for reply in p.replies] for p in played]
    merged = merged_rows(steps)
    assert (merged.apart, [len(rows) for rows in merged.rows]) == ({}, [1] * 8)
    learner = Learner(model, lora=None)
    for (row,) in merged.rows:
        scored = learner.score(row.prompt_ids, row.response_ids)
        for first, last in row.spans:
            assert scored[first:last] == pytest.approx(row.behaviour_logprobs[first:last], abs=1e-3)


@pytest.mark.processes
def test_both_arms_learn(model):
    found = curves(model, ("index", "outcome"), looks=(0, 10), batch=Batch(heldout=HELD_OUT))
    start = found["index"]["0"]
    assert 0.02 <= start == found["outcome"]["0"] <= 0.12  # of three seeds 0.055 to 0.08
    for arm in found.values():  # of three seeds index had 0.445 to 0.495, the outcome alone 0.325 to 0.47
        assert arm["10"] >= max(2 * start, 0.22)


@pytest.mark.processes
def test_a_coin_for_each_step_is_no_better_than_the_outcome(model):
    found = curves(model, ("random", "outcome"), looks=(10,), batch=Batch(heldout=HELD_OUT))
    assert found["random"]["10"] <= 0.2 < found["outcome"]["10"]  # of three seeds 0.005 to 0.115
