"""What people wrote instead in earlier runs is learned again beside what they write now."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.learner import Learner
from gpu_workers.types import Example
from tests.training.conftest import PROMPT, RESPONSE
from training import batches, forecast, replay, runs
from training.config import Recipe
from training.forecast import Lengths
from training.models import Checkpoint, Run, Sample
from training.objective import updates

RECIPE = Recipe(w_rl=0, w_opd=0, w_sft=2, replay=2, batch_size=2, lr=1e-2, updates=1)
FIRST, SECOND, THIRD = [11, 12, 2], [30, 31, 2], [40, 41, 2]


def learned(ready, *rewrites, recipe=RECIPE):
    """A finished run on replies that were rewritten so, with its candidate live."""
    for rewrite in rewrites:
        ready(teacher_prompt_ids=None, rewrite_ids=rewrite)
    run = batches.learn_now(recipe)
    candidate = runs.train(run)
    promote(candidate)
    return Run.objects.get(pk=run.pk), candidate


def promote(candidate):
    candidate.refresh_from_db()
    Checkpoint.objects.filter(status="live", line=candidate.line).exclude(pk=candidate.pk).update(status="retired")
    Checkpoint.objects.filter(pk=candidate.pk).update(status="live")


def drawn(recipe=RECIPE, seed=1):
    return sorted(one.rewrite_ids for one in replay.drawn(Checkpoint.live(), recipe, seed))


def test_a_run_learns_again_what_its_weights_learned_before(ready, home):
    first, _ = learned(ready, FIRST, SECOND)
    assert drawn() == sorted([FIRST, SECOND])

    second, _ = learned(ready, THIRD)

    assert first.metrics[0]["replies_replayed"] == 0
    assert second.metrics[0]["replies_replayed"] == 2
    assert drawn(RECIPE.model_copy(update={"replay": 9})) == sorted([FIRST, SECOND, THIRD])
    assert drawn(seed=4) == drawn(seed=4)


def test_what_was_written_long_ago_gives_way(ready, home, monkeypatch):
    monkeypatch.setattr(replay, "RECENT", 1)
    slow = RECIPE.model_copy(update={"lr": 1e-3, "batch_size": 4})
    learned(ready, FIRST, recipe=slow)
    learned(ready, SECOND, THIRD, recipe=slow)

    assert drawn() == sorted([SECOND, THIRD])  # the newest two, for a recipe that replays two


def test_together_they_weigh_what_those_of_the_batch_would_alone(tiny_model, served, monkeypatch):
    fresh, earlier = (Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, rewrite)) for rewrite in (FIRST, SECOND))
    learner, by_hand = (Learner(tiny_model, dtype="float32", seed=3) for _ in range(2))
    views = [learner.view(fresh), learner.view(Example(PROMPT, RESPONSE, served))]
    monkeypatch.setattr(learner, "optim_step", lambda *args, **more: {})  # the gradient stays as it is

    list(updates(learner, views, RECIPE.model_copy(update={"beta": 0.0}), [earlier]))
    by_hand.supervise([(PROMPT, FIRST), (PROMPT, SECOND)], scale=1.0)  # w_sft is 2, and one of two replies is rewritten

    for (name, ours), (_, theirs) in zip(learner.trainable(), by_hand.trainable(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_nothing_is_learned_again_where_nothing_was_written_now(tiny_model, served):
    learner = Learner(tiny_model, dtype="float32", seed=3)
    view = learner.view(Example(PROMPT, RESPONSE, served, reward=1.0))
    earlier = Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, FIRST))

    (figures,) = updates(learner, [view], RECIPE.model_copy(update={"w_rl": 1.0}), [earlier])

    assert "supervised_loss" not in figures


def test_what_was_rolled_back_or_taken_back_is_not_learned_again(ready, home):
    base = Checkpoint.live()
    run, candidate = learned(ready, FIRST, SECOND)
    taken = run.samples.get(rewrite_ids=FIRST)
    Sample.objects.filter(pk=taken.pk).update(drop_reason="taken back")
    assert drawn() == [SECOND]

    Checkpoint.objects.filter(pk=candidate.pk).update(status="retired")
    Checkpoint.objects.filter(pk=base.pk).update(status="live")
    assert drawn() == []


@pytest.mark.parametrize("recipe", [RECIPE.model_copy(update={"replay": 0}), RECIPE.model_copy(update={"w_sft": 0.0})])
def test_a_recipe_that_learns_no_rewrites_learns_none_again(ready, home, recipe):
    learned(ready, FIRST, SECOND)

    assert drawn(recipe) == []
    assert replay.count(Checkpoint.live(), recipe) == 0


def test_it_is_foreseen():
    samples = [Lengths(60, 40, rewrite=20), Lengths(60, 40)]

    # two looks at 100, and there and back with 100, 100, the rewrite's 80 and three more of 80
    expected = 2 * 100 + 3 * (100 + 100 + 80 + 3 * 80)
    assert forecast.reads(samples, Recipe(w_opd=0, w_sft=1), is_fresh=True, replayed=3) == expected
    assert forecast.reads(samples[1:], Recipe(w_opd=0, w_sft=1), is_fresh=True, replayed=3) == 100 + 3 * 100
