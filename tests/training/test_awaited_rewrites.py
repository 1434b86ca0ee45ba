"""Where people write what they want, a run waits for it and takes it first."""

from __future__ import annotations

import pytest

from checkpoints import lines
from tests.training.conftest import AWAITING
from training import batches, runs
from training.config import PRESETS
from training.models import Run, Sample


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
