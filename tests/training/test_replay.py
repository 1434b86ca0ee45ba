"""What people wrote instead in earlier runs is learned again beside what they write now."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.ready_samples import PROMPT, RESPONSE
from tests.training.gradients import gradients
from training import batches, replay, runs
from training.config import Recipe
from training.models import Run, Sample
from training.next_run import forecast
from training.next_run.forecast import Lengths
from training.objective.updates import updates

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


def test_together_they_weigh_what_those_of_the_batch_would_alone(tiny_model, served, monkeypatch, rounding):
    fresh, earlier = (Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, rewrite)) for rewrite in (FIRST, SECOND))
    learner, by_hand = (Learner(tiny_model, dtype="float32", seed=3) for _ in range(2))
    views = [learner.score_example(fresh), learner.score_example(Example(PROMPT, RESPONSE, served))]
    monkeypatch.setattr(learner, "optim_step", lambda *args, **more: {})  # the gradient stays as it is

    list(updates(learner, views, RECIPE.model_copy(update={"beta": 0.0}), [earlier]))
    by_hand.supervise([(PROMPT, FIRST), (PROMPT, SECOND)], scale=1.0)  # w_sft is 2, and one of two replies is rewritten

    rounding.assert_gradients(gradients(learner), gradients(by_hand))


def test_where_no_person_wrote_now_they_weigh_what_one_rewrite_would(tiny_model, served, monkeypatch, rounding):
    earlier = [Example(PROMPT, RESPONSE, served, rewrite=(PROMPT, rewrite)) for rewrite in (FIRST, SECOND)]
    learner, by_hand = (Learner(tiny_model, dtype="float32", seed=3) for _ in range(2))
    views = [learner.score_example(Example(PROMPT, RESPONSE, served)) for _ in range(4)]
    monkeypatch.setattr(learner, "optim_step", lambda *args, **more: {})  # the gradient stays as it is

    list(updates(learner, views, RECIPE.model_copy(update={"beta": 0.0}), earlier))
    by_hand.supervise([(PROMPT, FIRST), (PROMPT, SECOND)], scale=0.5)  # w_sft is 2, and one of four replies weighs 1/4

    rounding.assert_gradients(gradients(learner), gradients(by_hand))


def test_a_run_without_a_new_rewrite_learns_again_too(ready, home):
    slow = RECIPE.model_copy(update={"lr": 1e-3})  # what comes next was drawn from weights that are nearly the base's
    learned(ready, FIRST, SECOND, recipe=slow)

    ready(teacher_prompt_ids=None, reward=1.0), ready(teacher_prompt_ids=None, reward=-1.0)
    run = batches.learn_now(slow.model_copy(update={"w_rl": 1.0}))
    runs.train(run)

    run.refresh_from_db()
    assert run.metrics[0]["replies_rewritten"] == 0
    assert run.metrics[0]["replies_replayed"] == 2
    assert run.metrics[0]["supervised_loss"] > 0


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


def test_it_is_foreseen():
    samples, again = [Lengths(60, 40, rewrite=20), Lengths(60, 40)], [Lengths(50, 30, rewrite=10)] * 3

    # two looks at 100, and there and back with 100, 100, the rewrite's 80 and three more of 60
    expected = 2 * 100 + 3 * (100 + 100 + 80 + 3 * 60)
    assert forecast.reads(samples, Recipe(w_opd=0, w_sft=1), is_fresh=True, replayed=again) == expected
    assert forecast.reads(samples, Recipe(w_opd=0), is_fresh=True, replayed=again) == 4 * 200  # rewrites do not teach


def test_a_run_of_which_something_was_taken_back_foretells_no_minutes(ready, home):
    first, _ = learned(ready, FIRST, SECOND)
    second, _ = learned(ready, THIRD, SECOND)
    ready(teacher_prompt_ids=None, rewrite_ids=FIRST)
    assert forecast.of_ready(RECIPE).measured_on == 2

    Sample.objects.filter(pk=first.samples.first().pk).update(drop_reason="taken back")

    assert second.metrics[0]["replies_replayed"] == 2
    assert forecast.of_ready(RECIPE).measured_on == 1  # the first is as long as it was; of the second a rewrite is gone


def test_a_run_without_a_new_rewrite_is_foreseen_with_what_it_learns_again(ready, home):
    learned(ready, FIRST, SECOND)
    ready(teacher_prompt_ids=None, reward=1.0), ready(teacher_prompt_ids=None, reward=-1.0)

    recipe = RECIPE.model_copy(update={"w_rl": 1.0})
    without = forecast.of_ready(recipe.model_copy(update={"replay": 0}))

    # both rewrites, there and back in the one update
    assert forecast.of_ready(recipe).reads - without.reads == 3 * 2 * (len(PROMPT) + 3)
