"""Which samples a run takes, and which it never may."""

from __future__ import annotations

import pytest
from django.db.models.signals import pre_save

from checkpoints import lines
from checkpoints.models import SHARED, Checkpoint, Line
from training import batches, collation, runs
from training.batches import NothingReady
from training.config import PRESETS, Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=3, max_age=2)


def statuses():
    return sorted(Sample.objects.values_list("status", flat=True))


def descend(count):
    """Checkpoints one after the other, the last of them live."""
    for _ in range(count):
        live = Checkpoint.live()
        candidate = Checkpoint.objects.create(number=live.number + 1, parent=live, status="approved")
        candidate.go_live()


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

    def another_process_is_quicker(sender, instance, **kwargs):
        if instance.pk is None:
            Sample.objects.filter(pk=first.pk).update(status="claimed")

    pre_save.connect(another_process_is_quicker, sender=Run)
    try:
        assert batches.fill(RECIPE) is None
    finally:
        pre_save.disconnect(another_process_is_quicker, sender=Run)

    assert not Run.objects.exists()
    assert Sample.objects.filter(run__isnull=False).count() == 0
    assert batches.fill(RECIPE).samples.count() == 3


# Awaiting rewrites


AWAITING = Recipe(batch_size=4, w_sft=1.0, awaits=0.5)
"""A run waits for two rewrites, or for 6 · 4 samples without."""


@pytest.fixture
def rewritten(ready):
    return lambda: ready(rewrite_ids=[5, 6, 2])


@pytest.fixture
def liked(ready):
    """What a judge's votes alone found good."""
    return lambda **fields: ready(**{"teacher_prompt_ids": None, "reward": 1.0, "voted": True} | fields)


def keys(run):
    return {sample.pk for sample in run.samples.all()}


@pytest.mark.parametrize(
    ("waiting", "unwritten", "wanting", "sooner"),
    [
        ((0, 0, 0), 2, 24, 4),
        ((3, 0, 0), 2, 21, 2),  # one more would fill it, and two corrections are wanted
        ((4, 1, 1), 1, 20, 1),
        ((4, 2, 2), 0, 0, 0),
        ((2, 2, 2), 0, 2, 2),
        ((5, 3, 1), 1, 19, 1),
        ((5, 4, 1), 0, 0, 0),  # people said something of a whole batch
        ((24, 1, 1), 1, 0, 1),  # it has waited long enough
    ],
)
def test_a_batch_is_full_with_its_rewrites_or_what_people_said_or_at_six_times_its_size(
    waiting, unwritten, wanting, sooner
):
    batch = batches.Filling(4, *waiting, awaited=2)
    assert (batch.unwritten, batch.wanting, batch.sooner) == (unwritten, wanting, sooner)


def test_where_people_write_a_run_takes_what_they_wrote_first_and_then_the_newest(liked, rewritten):
    written, old, newer, newest = rewritten(), liked(), liked(), liked()
    assert batches.fill(AWAITING) is None  # four wait, and one of them is a rewrite
    again = rewritten()

    run = batches.fill(AWAITING)

    assert keys(run) == {written.pk, again.pk, newer.pk, newest.pk}
    old.refresh_from_db()
    assert (old.status, old.run, old.passed_by) == ("ready", None, run)


def test_what_was_passed_over_counts_for_no_batch_and_learn_now_takes_it_up(liked, rewritten):
    rewritten()
    passed = [liked() for _ in range(23)][:20]  # with six batches waiting it begins with one rewrite

    run = batches.fill(AWAITING)

    assert set(run.passed_over.all()) == set(passed)
    assert batches.filling(AWAITING).ready == 0
    assert batches.fill(AWAITING) is None
    assert keys(batches.learn_now(AWAITING)) == {sample.pk for sample in passed[-4:]}


def test_what_a_person_said_is_never_passed_over_and_the_oldest_of_it_comes_first(ready, liked, rewritten):
    thumbs = [liked(voted=False) for _ in range(3)]
    voted = liked()
    written = [rewritten() for _ in range(2)]

    run = batches.fill(AWAITING)

    assert keys(run) == {sample.pk for sample in [*written, *thumbs[:2]]}
    assert list(run.passed_over.all()) == [voted]
    assert list(batches.waiting(AWAITING)) == thumbs[2:]


def test_what_people_rate_waits_for_no_correction_of_theirs(liked, rewritten):
    """One reply in eight is rewritten, and all the others are rated: they are learned as they come."""
    for at in range(32):
        rewritten() if at % 8 == 7 else liked(voted=False)
        batches.fill(AWAITING)

    assert [run.samples.count() for run in Run.objects.all()] == [4] * 8
    assert not Sample.objects.exclude(passed_by=None).exists()


def test_what_a_hint_teaches_comes_before_what_votes_alone_say(liked, rewritten):
    hinted = [liked(teacher_prompt_ids=[1, 9, 2]) for _ in range(2)]
    newer = [liked() for _ in range(2)]
    written = [rewritten() for _ in range(2)]

    run = batches.fill(AWAITING)

    assert keys(run) == {sample.pk for sample in [*written, *hinted]}
    assert set(run.passed_over.all()) == set(newer)


def test_where_no_person_writes_the_oldest_come_first(liked):
    samples = [liked() for _ in range(6)]

    assert keys(batches.fill(AWAITING)) == {sample.pk for sample in samples[:4]}
    assert list(batches.waiting(AWAITING)) == samples[4:]


def test_a_run_waits_for_a_sample_that_is_locked(liked, rewritten, monkeypatch):
    for make in (rewritten, rewritten, liked, liked):
        make()
    lock_batch = batches._lock_batch

    def without_the_first(*asked):
        batch, samples = lock_batch(*asked)
        return batch, samples[1:]

    monkeypatch.setattr(batches, "_lock_batch", without_the_first)  # as where SKIP LOCKED leaves one out
    assert batches.fill(AWAITING) is None
    assert not Run.objects.exists()


def test_more_rewrites_than_a_run_takes_wait_for_the_next_one(rewritten):
    written = [rewritten() for _ in range(5)]

    assert keys(batches.fill(AWAITING)) == {sample.pk for sample in written[:4]}
    assert list(batches.waiting(AWAITING)) == written[4:]


def test_what_a_run_that_came_to_nothing_passed_over_counts_again(liked, rewritten):
    for make in (liked, rewritten, rewritten, liked):
        make()
    batches.fill(AWAITING)
    for _ in range(24):
        liked()
    run = batches.fill(AWAITING)
    assert batches.filling(AWAITING).ready == 0

    runs.fail(run, "Stopped by a person before it began.")

    # What the failed run had, four lessons, waits for a person alone.
    assert batches.filling(AWAITING) == batches.Filling(4, ready=20, said=0, rewrites=0, awaited=2, set_aside=4)
    assert batches.fill(AWAITING) is None  # and no run begins for what was stopped
    assert batches.ready(AWAITING).count() == 24


def test_a_recipe_that_awaits_nothing_takes_up_what_one_passed_over(liked, rewritten):
    for make in (liked, rewritten, rewritten, liked, liked):
        make()
    batches.fill(AWAITING)

    assert batches.filling(AWAITING.model_copy(update={"awaits": 0.0})).ready == 1


def test_learn_now_does_not_have_a_line_forget_that_its_people_write(liked, rewritten):
    for make in (liked, rewritten, rewritten, liked, liked):
        make()
    batches.fill(AWAITING)
    batches.learn_now(AWAITING)  # what was passed over, and no rewrite
    for _ in range(4):
        liked()

    assert batches.fill(AWAITING) is None


def test_what_people_wrote_before_a_line_had_any_run_of_its_own_counts(liked, rewritten):
    rewritten()
    batches.learn_now(AWAITING)
    for _ in range(4):
        liked()

    assert batches.fill(AWAITING) is None


def test_who_never_writes_waits_for_nothing(ready):
    for _ in range(4):
        ready()

    assert batches.fill(AWAITING).samples.count() == 4
    assert not Sample.objects.exclude(passed_by=None).exists()


def test_who_wrote_is_waited_for_once_more_and_then_no_longer(liked, rewritten):
    for make in (rewritten, rewritten, liked, liked):
        make()
    batches.fill(AWAITING)
    for _ in range(23):
        liked()
    assert batches.fill(AWAITING) is None
    liked()
    assert batches.fill(AWAITING) is not None  # 24: no person wrote for six batches
    assert batches.fill(AWAITING) is None  # and the twenty that it passed over are no five more
    for _ in range(4):
        liked()
    assert batches.fill(AWAITING).samples.count() == 4


def test_another_line_waits_for_its_own_people(ready, rewritten):
    for make in (rewritten, rewritten, ready, ready):
        make()
    batches.fill(AWAITING)
    line = lines.make("Ana")
    for _ in range(4):
        ready(line=line)

    assert batches.fill(AWAITING, line.name).samples.count() == 4


@pytest.mark.parametrize(
    ("knobs", "awaited"), [({}, 8), ({"batch_size": 1}, 0), ({"w_sft": 0.0, "w_opd": 1.0}, 0), ({"awaits": 0.0}, 0)]
)
def test_a_recipe_awaits_a_share_of_its_batch_where_it_learns_rewrites(knobs, awaited):
    assert PRESETS["embedded"].model_copy(update=knobs).awaited == awaited


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
