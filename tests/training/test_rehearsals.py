"""A share of a run is ordinary prompts with the base's own answers."""

from __future__ import annotations

import pytest
from django.utils import timezone

from gpu_workers.learner.learner import Learner
from gpu_workers.types import Example
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from training import batches, rehearsals, runs
from training.config import Recipe
from training.models import Rehearsal
from training.next_run import forecast
from training.next_run.forecast import Lengths
from training.objective.updates import updates

RECIPE = Recipe(distillation="vocabulary", rehearsal=0.25, lr=1e-2, updates=4, batch_size=3)
ORDINARY, ANSWER = [1, 60, 61, 62, 63], [90, 91, 92, 2]


@pytest.fixture
def rows(db, home, settings):
    """Ten answers of the base that is served here, and one of another."""
    made = [
        Rehearsal.objects.create(
            model=settings.MODEL, prompt_ids=[*ORDINARY, n], response_ids=ANSWER, logprobs=[-60.0] * 4
        )
        for n in range(10)
    ]
    Rehearsal.objects.create(model="another", prompt_ids=[1], response_ids=[2], logprobs=[-1.0])
    return made


@pytest.mark.parametrize(
    ("share", "samples", "rows"),
    [(0.25, 12, 4), (0.25, 3, 1), (0.5, 8, 8), (0.2, 16, 4), (0.1, 16, 2), (0, 12, 0)],  # 0.1: 1.78 of 17.78
)
def test_the_share_is_of_the_whole(share, samples, rows):
    assert rehearsals.count(RECIPE.model_copy(update={"rehearsal": share}), samples) == rows


@pytest.mark.parametrize(  # 4 is the share of 12
    ("written", "replayed", "rows"), [(0, 0, 0), (0, 2, 1), (0, 16, 1), (1, 0, 1), (1, 2, 3), (1, 16, 4), (12, 0, 4)]
)
def test_where_rewrites_are_learned_no_more_is_rehearsed_than_there_are(written, replayed, rows):
    assert rehearsals.count(RECIPE.model_copy(update={"w_sft": 1.0}), 12, written, replayed) == rows


def test_a_run_that_learns_rewrites_rehearses_only_where_there_are_any(rows, ready):
    recipe, seen = RECIPE.model_copy(update={"w_sft": 1.0}), []
    for written in (None, RESPONSE):
        ready(reward=-1.0, rewrite_ids=written), ready(reward=1.0), ready()
        assert forecast.of_ready(recipe).samples == 3
        run = batches.fill(recipe)
        assert runs.train(run) is not None
        run.refresh_from_db()
        seen.append(run.metrics[0]["replies_rehearsed"])
    assert seen == [0, 1]  # of the batch of three a quarter of the whole is one, and one was written


def test_a_seed_draws_the_same_rows_none_twice_and_only_of_this_base(rows):
    first, again, other = (rehearsals.drawn(RECIPE, 12, seed) for seed in (1, 1, 2))

    assert [example.prompt_ids for example in first] == [example.prompt_ids for example in again]
    assert [example.prompt_ids for example in first] != [example.prompt_ids for example in other]
    assert len({tuple(example.prompt_ids) for example in first}) == len(first) == 4
    assert all(example.prompt_ids[:5] == ORDINARY for example in rehearsals.drawn(RECIPE, 60, 3))


def test_a_run_that_is_begun_again_draws_the_same_rows_though_the_pool_has_grown(rows):
    until = timezone.now()
    before = rehearsals.drawn(RECIPE, 12, 1, until=until)
    Rehearsal.objects.bulk_create(
        Rehearsal(model=row.model, prompt_ids=[1, 2], response_ids=[3], logprobs=[-1.0])
        for row in [*Rehearsal.objects.all()] * 9
    )
    assert rehearsals.drawn(RECIPE, 12, 1, until=until) == before
    assert rehearsals.drawn(RECIPE, 12, 1) != before


def test_a_pool_that_is_too_small_gives_what_it_holds(rows):
    assert len(rehearsals.drawn(RECIPE, 60, seed=1)) == 10
    Rehearsal.objects.all().delete()
    assert rehearsals.drawn(RECIPE, 60, seed=1) == []


def test_how_long_an_answer_is_and_where_it_ends_is_not_rehearsed(rows):
    long = [90] * (rehearsals.TOKENS + 8)
    Rehearsal.objects.update(response_ids=long, logprobs=[-60.0] * len(long))

    (example,) = rehearsals.drawn(RECIPE, 3, seed=1)
    assert len(example.response_ids) == len(example.behaviour_logprobs) == rehearsals.TOKENS
    assert {one.response for one in forecast.rehearsed(1)} == {rehearsals.TOKENS}


def test_how_an_answer_sets_out_is_read_and_not_learned(rows):
    Rehearsal.objects.update(response_ids=[90] * 20, logprobs=[-60.0] * 20)
    (example,) = rehearsals.drawn(RECIPE, 3, seed=1)
    assert list(example.mask) == [0.0] * rehearsals.OPENING + [1.0] * (20 - rehearsals.OPENING)

    Rehearsal.objects.update(response_ids=ANSWER, logprobs=[-60.0] * 4)  # shorter than an opening: its last token
    (example,) = rehearsals.drawn(RECIPE, 3, seed=1)
    assert list(example.mask) == [0.0, 0.0, 0.0, 1.0]


def test_a_row_has_neither_reward_nor_teacher_and_is_no_longer_than_replies_are(rows):
    (example,) = rehearsals.drawn(RECIPE.model_copy(update={"max_tokens": 2}), 3, seed=1)

    assert (example.kind, example.has_reward, example.has_teacher) == ("rehearsal", False, False)
    assert (example.response_ids, example.behaviour_logprobs) == (ANSWER[:2], [-60.0, -60.0])


def test_a_run_says_how_much_it_rehearsed_and_trains_only_its_samples(rows, ready):
    ready(reward=-1.0), ready(), ready(reward=1.0)
    run = batches.fill(RECIPE)

    assert runs.train(run) is not None

    run.refresh_from_db()
    figures = run.metrics[0]
    # A recorded log-prob of −60 is far from what the learner gives: the gap is measured on people's replies alone.
    assert (run.status, figures["replies_rehearsed"], figures["replies_hinted"]) == ("finished", 1, 3)
    assert sum(figures["advantage_histogram"]["counts"]) == 3 * len(RESPONSE)
    assert figures["gap_mean"] < 0.1


def test_rehearsals_alone_teach_nothing(rows, ready):
    ready(teacher_prompt_ids=None, reward=1.0)
    run = batches.learn_now(RECIPE)
    run.samples.update(reward=0.0)

    assert runs.train(run) is None

    run.refresh_from_db()
    assert "Every advantage is zero" in run.error


LONG = [90, 91, 92, 93] * 6


def alike(run):
    """A run that draws as the other does: its seed is its number, and a fresh adapter is drawn by it."""
    run.seed = 2
    run.save(update_fields=["seed"])
    return run


def apart(learner: Learner) -> float:
    """How far the policy has moved from the base on an ordinary answer behind its opening, in nats a token."""
    pairs = zip(learner.score(ORDINARY, LONG), learner.score(ORDINARY, LONG, adapter=False), strict=True)
    rest = [abs(now - then) for now, then in pairs][rehearsals.OPENING :]
    return sum(rest) / len(rest)


def test_what_is_rehearsed_stays_nearer_to_the_base(rows, ready, settings):
    moved = {}
    for share in (0.0, 0.5):
        for _ in range(3):
            ready(reward=-1.0, teacher_prompt_ids=HINTED)
        recipe = RECIPE.model_copy(update={"rehearsal": share, "updates": 8, "max_age": 9})
        Rehearsal.objects.update(prompt_ids=ORDINARY, response_ids=LONG, logprobs=[-60.0] * len(LONG))
        candidate = runs.train(alike(batches.fill(recipe)))
        moved[share] = apart(Learner(settings.MODEL, adapter_dir=candidate.folder, dtype="float32"))

    assert moved[0.5] < moved[0.0] / 2  # a third; by other seeds as much as 0.88 of it, never more


def test_what_is_rehearsed_takes_nothing_of_the_replies_weight(rows, ready):
    """A fresh adapter is the base: the first gradient of what is rehearsed is 0, and that of the replies as ever."""
    length = {}
    for share in (0.0, 0.5):
        for _ in range(3):
            ready(reward=-1.0, teacher_prompt_ids=HINTED)
        run = alike(batches.fill(RECIPE.model_copy(update={"rehearsal": share, "updates": 1})))
        assert runs.train(run) is not None
        run.refresh_from_db()
        length[share] = run.metrics[0]["grad_norm"]

    assert length[0.5] == pytest.approx(length[0.0], rel=0.02)  # half of it, were they in one mean


def test_it_is_foreseen(rows):
    samples = [Lengths(len(PROMPT), len(RESPONSE))] * 3

    plain = forecast.forecast(RECIPE.model_copy(update={"rehearsal": 0}), samples).reads
    # one row of 6 + 4 tokens: read by the base, and there and back at four updates
    assert forecast.forecast(RECIPE, samples).reads == plain + 10 * (1 + 3 * 4)


def test_the_figures_of_an_update_are_those_of_the_replies(tiny_model, served, rounding):
    """What is rehearsed is near the base by its purpose: in one mean it would hide how far they are."""
    reply = Example(PROMPT, RESPONSE, served, teacher_prompt_ids=HINTED, reward=-1.0)
    ordinary = Example(ORDINARY, LONG, [-60.0] * len(LONG), kind="rehearsal")
    recipe, seen = RECIPE.model_copy(update={"updates": 3}), {}
    for rows in (0, 3):
        learner = Learner(tiny_model, dtype="float32", seed=3, micro_batch=4)
        list(updates(learner, [learner.score_example(reply)], recipe))  # it is the base no more
        views = [learner.score_example(one) for one in [*[ordinary] * rows, reply]]
        first = next(updates(learner, views, recipe))
        seen[rows] = {name: first[name] for name in ("kl", "entropy", "policy_loss", "distillation_loss", "ratio_max")}

    assert seen[0]["kl"] > 0.001
    assert seen[3] == pytest.approx(seen[0], abs=rounding.logprob)
