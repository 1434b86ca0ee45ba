"""Which samples a run takes, and which it never may."""

from __future__ import annotations

import pytest

from checkpoints.models import SHARED, Checkpoint, Line
from tests.training.conftest import AWAITING, another_process_is_quicker, descend
from training import batches, collation
from training.batches import NothingReady
from training.config import Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=3, max_age=2)


def statuses():
    return sorted(Sample.objects.values_list("status", flat=True))


def test_a_batch_is_exactly_its_size_oldest_first(ready):
    samples = [ready() for _ in range(4)]

    run = batches.fill(RECIPE)

    assert run.status == Run.Status.QUEUED
    assert list(run.samples.order_by("pk")) == samples[:3]
    assert statuses() == ["claimed", "claimed", "claimed", "ready"]
    assert Recipe.model_validate(run.recipe) == RECIPE
    assert (run.parent, run.seed) == (Checkpoint.live(), run.pk)


@pytest.mark.postgres
def test_many_lines_have_the_batches_that_each_has_alone_by_as_few_questions(
    ready, monkeypatch, django_assert_num_queries
):
    ready(), ready()
    many = [SHARED, *(Line.objects.create(name=name, start=Checkpoint.live()).pk for name in "abcd")]
    alone = {line: batches.filling(RECIPE, line) for line in many}
    assert [alone[line].ready for line in many] == [2, 0, 0, 0, 0]
    awaiting = Recipe(batch_size=3, w_sft=1.0, awaits=0.5)
    for recipe in (RECIPE, awaiting):
        alone = {line: batches.filling(recipe, line) for line in many}
        monkeypatch.setattr(batches, "AT_ONCE", 150)
        with django_assert_num_queries(1):
            assert batches.fillings(dict.fromkeys(many, recipe)) == alone
        monkeypatch.setattr(batches, "AT_ONCE", 2)
        with django_assert_num_queries(3):
            assert batches.fillings(dict.fromkeys(many, recipe)) == alone


def test_nothing_is_claimed_before_a_batch_is_full(ready):
    ready(), ready()

    assert batches.fill(RECIPE) is None
    assert statuses() == ["ready", "ready"]
    assert not Run.objects.exists()


def test_a_sample_without_a_signal_under_the_recipe_never_fills_a_batch(ready):
    ready(), ready()
    ready(teacher_prompt_ids=None, reward=0.0)
    only_praised = ready(teacher_prompt_ids=None, reward=1.0)

    assert batches.fill(RECIPE.model_copy(update={"w_rl": 0.0})) is None
    assert only_praised in batches.fill(RECIPE).samples.all()


@pytest.mark.parametrize(("recipe", "count"), [({"w_rl": 0.0}, 2), ({"w_opd": 0.0}, 2), ({}, 3)])
def test_the_weights_say_which_samples_count(ready, recipe, count):
    ready(reward=0.0)
    ready(reward=-1.0)
    ready(teacher_prompt_ids=None, reward=1.0)
    ready(teacher_prompt_ids=None, reward=0.0)

    assert batches.ready(RECIPE.model_copy(update=recipe)).count() == count


def test_of_two_workers_one_gets_the_batch(ready, db):
    first, *_ = [ready() for _ in range(3)]

    with another_process_is_quicker(first):
        assert batches.fill(RECIPE) is None

    assert not Run.objects.exists()
    assert Sample.objects.filter(run__isnull=False).count() == 0
    assert batches.fill(RECIPE).samples.count() == 3


def test_learn_now_takes_what_there_is(ready):
    ready()

    assert batches.learn_now(RECIPE).samples.count() == 1


def test_learn_now_takes_no_more_than_a_batch(ready):
    for _ in range(5):
        ready()

    assert batches.learn_now(RECIPE).samples.count() == 3


def test_learn_now_with_nothing_says_what_to_do(db):
    with pytest.raises(NothingReady, match="give a thumb or a correction"):
        batches.learn_now(RECIPE)
    assert not Run.objects.exists()


def test_what_failed_once_waits_for_a_person(ready):
    for _ in range(3):
        ready()
    run = batches.fill(RECIPE)
    batches.release(run)

    assert statuses() == ["ready"] * 3
    assert batches.fill(RECIPE) is None
    assert batches.learn_now(RECIPE).samples.count() == 3


def test_samples_of_old_weights_are_put_away_with_the_reason(ready):
    old = ready()
    descend(1)
    newer = ready()
    descend(2)

    assert batches.drop_stale(RECIPE) == 1

    old.refresh_from_db()
    newer.refresh_from_db()
    assert old.status == "stale"
    assert old.drop_reason == (
        "Served by talkback@0, 3 updates of the weights away from talkback@3: at most 2 may lie between."
    )
    assert newer.status == "ready"


def test_after_a_roll_back_the_way_leads_over_the_common_ancestor(ready):
    descend(2)
    ready()
    first = Checkpoint.objects.get(number=1)
    first.go_live()

    assert batches.distance(Checkpoint.objects.get(number=2), first) == 1
    sibling = Checkpoint.objects.create(number=3, parent=first)
    assert batches.distance(Checkpoint.objects.get(number=2), sibling) == 2
    assert batches.drop_stale(RECIPE) == 0


def test_rows_become_examples_and_lengths_must_agree(ready):
    good = ready(reward=-1.0, mask=[1, 1, 0, 0, 1])
    example = collation.examples([good])[0]
    assert (example.prompt_ids, example.mask, example.reward) == (good.prompt_ids, [1, 1, 0, 0, 1], -1.0)
    assert example.has_teacher

    with pytest.raises(ValueError, match="behaviour_logprobs has 2 entries for 5"):
        collation.examples([ready(behaviour_logprobs=[-1.0, -2.0])])
    with pytest.raises(ValueError, match="sampled_logprobs has 1 entries for 5"):
        collation.examples([ready(sampled_logprobs=[-1.0])])


def test_a_reply_may_be_learned_from_in_part(ready):
    example = collation.examples([ready(mask=[1, 0, 1, 1, 1])], max_tokens=2)[0]

    assert (example.response_ids, example.mask, len(example.behaviour_logprobs)) == ([7, 8], [1, 0], 2)
    assert collation.examples([ready()], max_tokens=99)[0].response_ids == [7, 8, 9, 10, 2]


def test_the_queue_is_the_filling_and_what_waits_in_the_order_it_is_claimed(
    liked, rewritten, django_assert_num_queries
):
    def claimed_in_turn() -> list[int]:
        batch, rows = batches.filling(AWAITING), batches.waiting(AWAITING)
        return [sample.pk for sample in (batches.in_turn(rows, batch) if batch.ready > batch.size else rows)]

    assert batches.queue(AWAITING) == (batches.filling(AWAITING), [])
    makers = (liked, rewritten, lambda: liked(voted=False), lambda: liked(teacher_prompt_ids=[1, 9, 2]))
    for maker in makers:  # four: as many as a run takes
        maker()
    assert batches.queue(AWAITING) == (batches.filling(AWAITING), claimed_in_turn())
    for maker in makers:
        maker()
    with django_assert_num_queries(1):
        queue = batches.queue(AWAITING)
    assert queue == (batches.filling(AWAITING), claimed_in_turn())
    assert queue[1] != sorted(queue[1])  # rewrites first
