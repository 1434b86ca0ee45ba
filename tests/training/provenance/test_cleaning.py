"""A line is learned again without what was taken back: from the right weights, on what is left, once, whatever dies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Decision, Taint
from training import batches, launch, runs, tasks
from training.config import Recipe
from training.jobs import Learned
from training.models import Run, Sample
from training.provenance import cleaning, taints

RECIPE = Recipe(batch_size=2, w_opd=0)
UNLUCKY = "its chat was deleted"


class Died(BaseException):
    """kill -9, as far as one process can play it: nothing of the worker's own clean-up counts."""


class FakeLearner:
    """Stands where weights are learned: writes a file, and remembers from which weights it took which samples."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, list[int]]] = []
        self.dies = self.fails = False
        self.meanwhile = lambda: None

    def learn(self, job, ledger, *, home, processes=1):
        if self.dies:
            raise Died
        if self.fails:
            raise launch.GroupEnded("The learner ended.")
        self.meanwhile()
        job.folder.mkdir(parents=True)
        (job.folder / "adapter_model.safetensors").write_bytes(b"weights")
        self.jobs.append((job.start.name if job.start else "base", [one.prompt_ids[0] for one in job.examples]))
        return Learned({"prompt_ids": [1], "response_ids": [2], "logprobs": [-1.0]}, 1.0)


def sample(number: int, **fields) -> Sample:
    """One that tells which it is by its only prompt token."""
    said = {"prompt_ids": [number], "response_ids": [2], "behaviour_logprobs": [-1.0], "reward": 1.0} | fields
    return Sample.objects.create(checkpoint=Checkpoint.live(), **said)


def learned_line(learner: FakeLearner, runs_: int = 3) -> list[Checkpoint]:
    """Runs of two samples each, every one approved and live in turn: samples 1 and 2, 3 and 4, …"""
    made = []
    for number in range(runs_):
        sample(2 * number + 1), sample(2 * number + 2)
        checkpoint = runs.train(batches.fill(RECIPE))
        Checkpoint.objects.filter(pk=checkpoint.pk).update(status="approved")
        checkpoint = Checkpoint.objects.get(pk=checkpoint.pk)
        checkpoint.go_live()
        made.append(checkpoint)
    learner.jobs.clear()
    return made


def take_back(*numbers: int) -> None:
    rows = Sample.objects.filter(
        pk__in=[one.pk for one in Sample.objects.all() if one.prompt_ids in [[n] for n in numbers]]
    )
    rows.update(drop_reason=UNLUCKY)
    taints.mark(rows)


def work(row: Cleaning) -> Cleaning:
    """What the workers do until nothing is due."""
    for _ in range(20):
        cleaning.go_on(row.pk)
        run = Run.objects.filter(status="queued").order_by("again", "pk").first()
        if run is None:
            break
        tasks.train(str(run.pk))
    return Cleaning.objects.get(pk=row.pk)


@pytest.fixture
def learner(db, monkeypatch, settings, tmp_path):
    settings.DATA_DIR, settings.RECIPE = tmp_path, ""
    fake = FakeLearner()
    monkeypatch.setattr(launch, "learn", fake.learn)
    return fake


def test_the_runs_since_the_last_untainted_weights_are_repeated_on_what_is_left(learner):
    first, second, third = learned_line(learner)
    take_back(3, 4, 5)  # all of the second run's, and one of the third's

    planned = cleaning.plan(third)
    assert (planned.ancestor, planned.removed, planned.left) == (first, 3, 1)
    assert [(step.run, step.left, step.removed) for step in planned.steps] == [(second.run, 0, 2), (third.run, 1, 1)]

    done = work(cleaning.start(third, by=None))

    assert learner.jobs == [(first.folder.name, [6])]  # nothing is left of the second run: it is passed over
    result = done.result
    assert (done.status, result.status, result.parent) == ("finished", "candidate", first)
    assert (result.run.again, result.run.recipe, result.run.seed) == (third.run, third.run.recipe, third.run.seed)
    assert set(Sample.objects.values_list("status", flat=True)) == {"trained"}
    assert Sample.objects.filter(run=third.run).count() == 2  # they stay those of the run that was repeated
    assert taints.of(result) is None


def test_each_step_goes_on_from_the_one_before_and_only_the_last_is_examined(learner):
    third = learned_line(learner)[-1]
    take_back(1)
    row = cleaning.start(third, by=None)
    cleaning.go_on(row.pk)
    tasks.train(str(Run.objects.get(status="queued").pk))
    step = Checkpoint.objects.get(run__cleaning=row)
    assert cleaning.is_step(step)

    done = work(row)

    base = Checkpoint.objects.get(number=0)
    steps = list(Checkpoint.objects.filter(run__cleaning=done).order_by("number"))
    assert [one.parent for one in steps] == [base, *steps[:-1]]
    assert [samples for _, samples in learner.jobs] == [[2], [3, 4], [5, 6]]
    assert [one.status for one in steps] == ["rejected", "rejected", "candidate"]
    assert [cleaning.is_step(one) for one in steps] == [True, True, False]
    assert Decision.objects.filter(checkpoint=steps[0], verb="reject", by=None).exists()
    assert done.result == steps[-1]


def test_where_the_ancestors_weights_are_gone_it_begins_further_back(learner):
    first, second, third = learned_line(learner)
    take_back(6)
    (second.folder / "adapter_model.safetensors").unlink()
    second.folder.rmdir()
    planned = cleaning.plan(third)
    assert (planned.ancestor, [step.run for step in planned.steps]) == (first, [second.run, third.run])


def test_what_cannot_be_learned_again_is_refused_with_a_sentence(learner):
    first, second, _ = learned_line(learner)
    with pytest.raises(cleaning.NothingToClean, match="Nothing that talkback@2 learned was taken back"):
        cleaning.plan(second)
    take_back(3, 4)
    with pytest.raises(
        cleaning.NothingToClean, match="Nothing is left of what talkback@2 learned since talkback@1: roll"
    ):
        cleaning.start(second, by=None)
    Run.objects.filter(checkpoint=second).update(checkpoint=None)
    sample(9, status="trained", run=first.run, drop_reason=UNLUCKY)
    with pytest.raises(cleaning.NothingToClean, match="talkback@2 was made elsewhere"):
        cleaning.plan(Checkpoint.objects.get(number=3))


def test_of_two_who_click_one_begins_it(learner):
    third = learned_line(learner)[-1]
    take_back(1)
    cleaning.start(third, by=None)
    with pytest.raises(cleaning.AlreadyCleaning):
        cleaning.start(third, by=None)
    assert Cleaning.objects.count() == 1


def test_live_learning_goes_first_and_is_then_repeated_too(learner):
    third = learned_line(learner)[-1]
    take_back(6)
    row = cleaning.start(third, by=None)
    cleaning.go_on(row.pk)
    repeated = Run.objects.get(status="queued")
    sample(7), sample(8)
    live = batches.fill(RECIPE)

    assert runs.train(repeated) is None  # it waits
    fourth = runs.train(live)
    Checkpoint.objects.filter(pk=fourth.pk).update(status="approved")
    Checkpoint.objects.get(pk=fourth.pk).go_live()
    done = work(row)

    assert [samples for _, samples in learner.jobs] == [[7, 8], [5], [7, 8]]
    assert (done.replaces, done.result.run.again) == (fourth, live)


def test_what_is_taken_back_while_it_is_learned_again_is_learned_once_more_without(learner):
    third = learned_line(learner)[-1]
    take_back(3)

    def strike():
        learner.meanwhile = lambda: None
        take_back(5)

    learner.meanwhile = strike
    done = work(cleaning.start(third, by=None))
    assert [samples for _, samples in learner.jobs] == [[4], [6]]
    assert taints.of(done.result) is None

    learner.jobs.clear()
    learner.meanwhile = lambda: take_back(6) if len(learner.jobs) == 1 else None
    take_back(1)
    done = work(cleaning.start(third, by=None))
    # Sample 6 went while the step with 4 was learned: nothing is left for the third, and the second was put away.
    assert [samples for _, samples in learner.jobs] == [[2], [4]]
    assert done.result.status == "candidate"


def test_one_that_was_stopped_goes_on_from_the_step_that_is_done(learner):
    third = learned_line(learner)[-1]
    take_back(1)
    row = cleaning.start(third, by=None)
    cleaning.go_on(row.pk)
    tasks.train(str(Run.objects.get(status="queued").pk))
    cleaning.cancel(row)
    row.refresh_from_db()
    assert (row.status, Run.objects.filter(status="queued").count()) == ("failed", 0)
    assert not Checkpoint.objects.filter(status="candidate").exists()

    cleaning.again(row)
    done = work(row)

    assert [samples for _, samples in learner.jobs] == [[2], [3, 4], [5, 6]]
    assert done.status == "finished"


def test_the_tainted_are_named_as_replaced_once_the_clean_line_answers(learner):
    third = learned_line(learner)[-1]
    take_back(3)
    done = work(cleaning.start(third, by=None))
    Checkpoint.objects.filter(pk=done.result_id).update(status="approved")
    Checkpoint.objects.get(pk=done.result_id).go_live()
    cleaning.settle()
    cleaning.settle()
    assert dict(Taint.objects.values_list("checkpoint__number", "cleaned_by")) == {2: done.pk, 3: done.pk}

    Checkpoint.objects.get(number=3).go_live()  # an operator rolled back
    cleaning.settle()
    assert Taint.objects.get(checkpoint__number=3).cleaned_by is None


class Killed(TestCase):
    """Whatever dies, is said twice or taken back in between: no sample that is left is lost, none is learned twice in
    one line of weights, and none that was taken back is in the result."""

    @settings(max_examples=12)
    @given(
        st.lists(st.sampled_from(["work", "die", "fail", "go on", "again", "stop", "take back"]), max_size=12),
        st.randoms(use_true_random=False),
    )
    def test_every_order_ends_in_the_same_line(self, events, random):
        learner = FakeLearner()
        with (
            TemporaryDirectory() as home,
            override_settings(DATA_DIR=Path(home), RECIPE=""),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(launch, "learn", learner.learn)
            third = learned_line(learner)[-1]
            take_back(1)
            left = {2, 3, 4, 5, 6}
            row = cleaning.start(third, by=None)
            for event in events:
                row.refresh_from_db()  # once it has ended, what is taken back is the next one's
                if event == "take back" and len(left) > 2 and row.status != "finished":
                    take_back(gone := random.choice(sorted(left)))
                    left.discard(gone)
                self.happen(event, row, learner)
            learner.dies = learner.fails = False
            self.end(row)

            result = Cleaning.objects.get(pk=row.pk).result
            line = [result]
            while line[-1].parent.number:
                line.append(line[-1].parent)
            seen = Counter(pk for one in line for pk in one.run.learned)
            numbers = {one.pk: one.prompt_ids[0] for one in Sample.objects.all()}
            assert {numbers[pk]: times for pk, times in seen.items()} == dict.fromkeys(left, 1)
            assert result.status == "candidate"
            assert set(Sample.objects.values_list("status", flat=True)) == {"trained"}

    def happen(self, event: str, row: Cleaning, learner: FakeLearner) -> None:
        row.refresh_from_db()
        active = row.status in cleaning.ACTIVE
        if event == "go on":
            cleaning.go_on(row.pk)
        elif event == "stop" and active:
            cleaning.cancel(row)
        elif event == "again" and row.status == "failed":
            cleaning.again(row)
        elif event in ("work", "die", "fail"):
            learner.dies, learner.fails = event == "die", event == "fail"
            for run in [*runs.recover(), *Run.objects.filter(status="queued")][:1]:
                run = Run.objects.get(pk=run.pk)
                try:
                    if run.status == "queued":
                        tasks.train(str(run.pk))
                except Died:
                    pass
                except launch.GroupEnded:
                    pass

    def end(self, row: Cleaning) -> None:
        for _ in range(30):
            runs.recover()
            done = work(row)
            if done.status == "finished" and taints.of(done.result) is None:
                return
            if done.status == "failed":
                cleaning.again(done)
        raise AssertionError(f"{row} never ends: {Cleaning.objects.get(pk=row.pk).error}")
