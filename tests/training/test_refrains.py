"""While loops are unlearned, what is rightly said again stays as likely as it was."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.learner import Learner
from gpu_workers.types import Example
from tests.training.conftest import PROMPT
from tests.training.gradients import at_step, gradients
from training import batches, forecast, refrains, runs
from training.config import Recipe
from training.objective import updates
from training.refrains import Refrain

COPIED = Refrain([1, 60, 61, 62, 63], [60, 61, 62, 63, 2])
"""Of the reply the third token is the first of which three in a row stood before, in the prompt; its end is new."""
TABLE = Refrain([1, 60], [70, 71, 72, 73, 70, 71, 72, 74])
"""Its seventh token is the only one."""
RECIPE = Recipe(w_rl=1e-9, w_opd=0, w_again=3, beta=0.0, lr=1e-2, max_grad_norm=1e9)
LOOP = [5, 6, 7, 8, 9, 10] * 2 + [2]


@pytest.fixture
def known():
    before = refrains.POOL.known
    refrains.POOL.ask_of_judge(lambda: [COPIED, TABLE])
    yield
    refrains.POOL.ask_of_judge(before)


def test_what_the_prompt_says_is_said_again_too():
    assert COPIED.marks == [False, False, True, True, False]
    assert TABLE.marks == [False] * 6 + [True, False]


@pytest.mark.parametrize(("prompt", "reply"), [([], [1, 2, 3, 1, 2, 3]), ([1], [2, 3, 4]), ([1], [])])
def test_a_text_that_says_nothing_again_is_no_refrain(prompt, reply):
    with pytest.raises(ValueError, match="says something again"):
        Refrain(prompt, reply)


def test_its_gradient_is_that_of_what_it_says_again_and_of_nothing_else(tiny_model, rounding):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    held = at_step(learner)
    views = [learner.score_example(Example(PROMPT, [5, 6, 7, 2], [-1.0] * 4, reward=1.0))]

    (figures,) = updates(learner, views, RECIPE, refrains=[COPIED, TABLE])

    by_hand = Learner(tiny_model, dtype="float32", seed=3)
    means = []
    for one in (COPIED, TABLE):
        logits = by_hand.model(input_ids=torch.tensor([[*one.prompt, *one.reply]])).logits[0].log_softmax(-1)
        said = [logits[len(one.prompt) - 1 + at, one.reply[at]] for at, is_again in enumerate(one.marks) if is_again]
        means.append(-torch.stack(said).mean())
    loss = torch.stack(means).mean()
    (3 * loss).backward()  # w_again is 3
    expected = gradients(by_hand)
    rounding.assert_gradients(held, expected)
    assert figures["refrain_loss"] == pytest.approx(loss.item(), abs=rounding.logprob)
    assert figures["loss"] == pytest.approx(3 * loss.item(), abs=rounding.logprob)


def test_a_loop_becomes_less_likely_and_a_refrain_does_not(tiny_model):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    learner.supervise([(PROMPT, LOOP), (COPIED.prompt, COPIED.reply), (TABLE.prompt, TABLE.reply)])
    learner.optim_step(1e-2)
    loop, table = learner.score(PROMPT, LOOP)[11], learner.score(TABLE.prompt, TABLE.reply)[6]
    view = learner.score_example(Example(PROMPT, LOOP, [-1.0] * len(LOOP)))

    list(updates(learner, [view], RECIPE.model_copy(update={"updates": 4}), refrains=[COPIED, TABLE]))

    assert learner.score(PROMPT, LOOP)[11] < loop - 0.1
    assert learner.score(TABLE.prompt, TABLE.reply)[6] > table


def test_a_run_reads_them_and_says_what_they_cost(known, home, ready):
    ready(reward=1.0)
    recipe = Recipe(batch_size=1, w_again=0.5, updates=2, max_gap=99)
    without = forecast.of_ready(recipe.model_copy(update={"w_again": 0.0})).reads
    # Both in each of two updates, 5 + 5 and 2 + 8 tokens, there and back, which is three times.
    assert forecast.of_ready(recipe).reads == without + 2 * 3 * 20
    run = batches.fill(recipe)

    assert runs.train(run) is not None

    run.refresh_from_db()
    assert [figures["refrain_loss"] > 0 for figures in run.metrics] == [True] * 2


def test_where_nothing_is_unlearned_there_are_none(known):
    assert refrains.drawn(RECIPE.model_copy(update={"w_again": 0.0}), seed=1) == []
    assert len(refrains.drawn(RECIPE, seed=1)) == 2
