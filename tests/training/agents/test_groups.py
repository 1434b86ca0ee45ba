"""Groups of attempts are claimed whole, or not at all."""

from __future__ import annotations

import pytest

from checkpoints import lines
from tests.ready_attempts import FAILED, SOLVED, Try
from tests.training.conftest import another_process_is_quicker, descend
from training import batches
from training.agents import groups
from training.batches import Filling, NothingReady
from training.config import Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=4, w_opd=0.0, w_sft=0.0)


def groups_of(run):
    return sorted(set(run.samples.values_list("episode__group", flat=True)))


def statuses():
    return sorted(set(Sample.objects.values_list("status", flat=True)))


def test_a_group_is_claimed_whole_once_its_attempts_fill_the_batch(play):
    first = play(SOLVED, FAILED, FAILED)
    assert batches.fill(RECIPE) is None  # three attempts of four
    second = play(SOLVED, FAILED, FAILED)
    third = play(SOLVED, FAILED)

    run = batches.fill(RECIPE)

    assert groups_of(run) == [first.pk, second.pk]  # six: the last one is whole, and 6 - 4 is less than a group
    assert run.samples.filter(status="claimed").count() == 12
    assert set(Sample.objects.filter(episode__group=third).values_list("status", flat=True)) == {"ready"}


def test_an_attempt_is_one_of_the_batch_and_people_come_first(play, ready):
    group = play(SOLVED, FAILED)
    praised = [ready(reward=1.0, teacher_prompt_ids=None) for _ in range(3)]
    assert batches.filling(RECIPE) == Filling(4, ready=5, said=5, groups=(2,))

    run = batches.fill(RECIPE)

    assert {one.pk for one in praised} < {one.pk for one in run.samples.all()}
    assert run.samples.filter(episode__group=group).count() == 4
    assert run.samples.count() == 7


def test_people_who_fill_the_batch_leave_the_group_for_the_next(play, ready):
    play(SOLVED, FAILED)
    for _ in range(4):
        ready(reward=1.0, teacher_prompt_ids=None)

    assert not batches.fill(RECIPE).samples.filter(step__isnull=False).exists()
    assert batches.filling(RECIPE) == Filling(4, ready=2, said=2, groups=(2,))


def test_filling_says_how_many_of_the_lessons_are_attempts(play, ready):
    play(SOLVED, FAILED)
    ready(reward=1.0, teacher_prompt_ids=None)

    assert batches.filling(RECIPE).sentence == (
        "3 of 4 lessons; 2 of these are attempts. Training starts at 4, or now."
    )


@pytest.mark.parametrize(
    "group",
    [
        {"is_judged": False},
        {"split": "heldout"},
        {"drop_reason": "its chat was deleted"},
    ],
)
def test_a_group_that_is_unjudged_held_out_or_taken_back_is_never_claimed(play, group):
    play(SOLVED, FAILED, FAILED, SOLVED, **group)

    assert batches.fill(RECIPE) is None
    with pytest.raises(NothingReady):
        batches.learn_now(RECIPE)
    assert not Run.objects.exists()


def test_a_recipe_without_rewards_takes_no_attempt(play, ready):
    play(SOLVED, FAILED, FAILED, SOLVED)
    ready()

    recipe = Recipe(batch_size=4, w_rl=0.0)
    assert batches.filling(recipe).ready == 1
    assert batches.learn_now(recipe).samples.filter(step__isnull=False).count() == 0


def test_a_step_with_score_0_is_claimed_since_its_outcome_teaches(play):
    play(Try("solved", (0.0, 0.0)), Try("failed", (0.0, 0.0)))

    assert batches.learn_now(RECIPE).samples.count() == 4


def test_attempts_that_do_not_count_come_with_their_group_and_fill_nothing(play):
    group = play(SOLVED, FAILED, Try("truncated", (0.0,), cut_by="context"), Try("truncated", (0.0,), cut_by="horizon"))

    assert batches.filling(RECIPE).groups == (3,)
    assert batches.learn_now(RECIPE).samples.filter(episode__group=group).count() == 2 + 2 + 1 + 1


def test_of_two_workers_one_gets_the_group(play):
    group = play(SOLVED, FAILED, FAILED, SOLVED)
    first = Sample.objects.filter(episode__group=group).last()

    with another_process_is_quicker(first):
        assert batches.fill(RECIPE) is None

    assert not Run.objects.exists()
    assert statuses() == ["ready"]
    assert batches.fill(RECIPE).samples.count() == 8


def test_a_group_of_which_a_part_is_locked_waits(play, monkeypatch):
    locked = play(SOLVED, FAILED)
    free = play(SOLVED, FAILED)
    select = Sample.objects.none().__class__.select_for_update

    def all_but_one(rows, **how):  # as where SKIP LOCKED leaves one out
        held = Sample.objects.filter(episode__group=locked).first()
        return select(rows, **how).exclude(pk=held.pk)

    monkeypatch.setattr(Sample.objects.none().__class__, "select_for_update", all_but_one)
    assert batches.fill(RECIPE) is None
    run = batches.learn_now(RECIPE)  # a person asked for what there is

    assert groups_of(run) == [free.pk]


def test_a_group_whose_run_failed_waits_for_a_person(play):
    play(SOLVED, FAILED, FAILED, SOLVED)
    batches.release(batches.fill(RECIPE))

    assert statuses() == ["ready"]
    assert batches.filling(RECIPE).ready == 0
    assert batches.lessons(RECIPE) == 4
    assert batches.fill(RECIPE) is None
    assert batches.learn_now(RECIPE).samples.count() == 8


def test_a_group_of_old_weights_is_put_away_whole(play):
    play(SOLVED, FAILED)
    descend(3)

    assert batches.drop_stale(RECIPE) == 4
    assert statuses() == ["stale"]


# Taken back in part


def forget(*episodes):
    """As privacy does where a session is deleted: what waits of it goes."""
    Sample.objects.filter(episode__in=episodes).delete()


def test_the_rest_of_a_group_teaches_while_two_attempts_are_left(play):
    group = play(SOLVED, FAILED, FAILED)
    gone, *_ = group.episodes.all()
    forget(gone)

    assert batches.drop_stale(RECIPE) == 0
    assert batches.filling(RECIPE).groups == (2,)


def test_an_attempt_that_is_left_alone_is_put_away_with_its_reason(play):
    group = play(SOLVED, FAILED)
    gone, left = group.episodes.all()
    forget(gone)

    assert batches.drop_stale(RECIPE) == 2
    assert set(Sample.objects.values_list("episode", "status", "drop_reason")) == {(left.pk, "stale", groups.ALONE)}


def test_while_a_run_waits_the_same_holds_of_what_it_claimed(play):
    group, other = play(SOLVED, FAILED), play(SOLVED, FAILED, FAILED)
    run = batches.learn_now(RECIPE)
    for one in (group, other):
        first = one.episodes.first()
        Sample.objects.filter(episode=first).update(drop_reason="its chat was deleted")

    kept = batches.fresh(list(run.samples.select_related("episode")), run.parent, RECIPE)

    assert {one.episode.group_id for one in kept} == {other.pk}
    assert len(kept) == 4  # two attempts of two steps
    reasons = Sample.objects.filter(episode__group=group).values_list("status", "drop_reason").distinct()
    assert set(reasons) == {("stale", "its chat was deleted"), ("stale", groups.ALONE)}


def test_steps_of_a_task_that_examines_are_put_away_with_their_reason(play):
    play(SOLVED, FAILED, split="heldout")

    assert batches.drop_stale(RECIPE) == 4
    assert set(Sample.objects.values_list("status", "drop_reason")) == {("stale", groups.EXAMINES)}


def test_a_group_that_is_still_short_is_left_alone_since_more_attempts_may_come(play):
    play(SOLVED, Try("infra_error", ()), is_judged=False)

    assert batches.drop_stale(RECIPE) == 0
    assert statuses() == ["ready"]


def test_steps_of_a_deleted_attempt_are_nothing_that_a_person_said(play):
    group = play(Try("solved", (1.0,)), FAILED)
    group.delete()
    assert Sample.objects.filter(episode=None, step__isnull=False).count() == 3

    assert batches.filling(RECIPE).ready == 0
    assert batches.drop_stale(RECIPE) == 3
    assert set(Sample.objects.values_list("drop_reason", flat=True)) == {groups.DELETED}


def test_a_late_verdict_on_a_group_that_was_learned_is_put_away(play):
    group = play(SOLVED, FAILED)
    Sample.objects.filter(episode__group=group).update(status="trained")
    step = Sample.objects.first()
    late = Sample.objects.create(
        checkpoint=step.checkpoint,
        prompt_ids=step.prompt_ids,
        response_ids=step.response_ids,
        behaviour_logprobs=step.behaviour_logprobs,
        reward=-1.0,
        episode=step.episode,
        step=0,
    )

    assert batches.filling(RECIPE).ready == 0
    assert batches.drop_stale(RECIPE) == 1
    late.refresh_from_db()
    assert (late.status, late.drop_reason) == ("stale", groups.LATE)


def test_each_line_claims_its_own_samples_of_a_group(play):
    line = lines.make("Ana")
    group = play(SOLVED, FAILED, FAILED, SOLVED)
    for one in Sample.objects.filter(episode__group=group):
        one.pk, one._state.adding, one.line = None, True, line
        one.save()

    shared, own = batches.fill(RECIPE), batches.fill(RECIPE, line.name)

    assert (shared.samples.count(), own.samples.count()) == (8, 8)
    assert set(own.samples.values_list("line", flat=True)) == {line.name}
