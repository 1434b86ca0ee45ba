"""What can happen to a run while it learns: each fault ends in a sentence or in the same weights, never in silence."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
import torch
from django.db import OperationalError, connection
from safetensors.torch import load_file

from checkpoints.models import Checkpoint
from gpu_workers.learner import learner, policy, policy_files
from tests.training.conftest import RECIPE, samples
from tests.training.test_runs import again, folders
from training import batches, runs
from training.config import Recipe
from training.models import Run, Sample
from training.running import patience, run_ledger

OPTIMIZER = policy_files.OPTIMIZER_FILE
WEIGHTS = "adapter_model.safetensors"


@contextmanager
def away(is_away):
    """While in here the database does not answer a statement of which `is_away(sql)`."""

    def wrapper(execute, sql, *rest):
        if is_away(sql):
            raise OperationalError("server closed the connection unexpectedly")
        return execute(sql, *rest)

    with connection.execute_wrapper(wrapper):
        yield


def is_beat(sql):
    return sql.startswith('UPDATE "training_run"') and '"heartbeat_at" =' in sql and '"started_at"' not in sql


@pytest.fixture
def waits(monkeypatch):
    """How often a worker waited, in place of the waiting. A connection that is made anew sleeps too, and still does."""
    waits, sleep = [], time.sleep
    monkeypatch.setattr(patience.time, "sleep", lambda s: waits.append(s) if s == patience.RETRY_S else sleep(s))
    return waits


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_database_that_is_away_for_a_moment_costs_a_moment(queued, waits):
    beats = iter([False, True, True])  # the second beat is written at its third try

    with away(lambda sql: is_beat(sql) and next(beats, False)):
        candidate = runs.train(queued)

    assert waits == [patience.RETRY_S] * 2
    assert (again(queued).status, candidate.number) == ("finished", 1)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_beat_that_is_never_written_ends_the_run_with_a_sentence(queued, waits, monkeypatch):
    monkeypatch.setattr(patience, "DATABASE_PATIENCE_S", 0)

    with away(is_beat), pytest.raises(OperationalError):
        runs.train(queued)

    assert again(queued).status == "failed"
    assert again(queued).error == ("The database did not answer for 0 s: server closed the connection unexpectedly")
    assert samples() == {"ready"}


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_database_that_stays_away_leaves_a_run_that_the_sweep_takes_up(queued, waits, monkeypatch):
    monkeypatch.setattr(patience, "DATABASE_PATIENCE_S", 0)
    gone = False

    def is_away(sql):
        nonlocal gone
        gone = gone or is_beat(sql)
        return gone

    with away(is_away), pytest.raises(OperationalError):
        runs.train(queued)
    assert (again(queued).status, samples()) == ("running", {"claimed"})

    assert runs.recover() == [queued]  # its lock is free
    assert runs.train(again(queued)).number == 1
    assert (again(queued).attempts, samples()) == (2, {"trained"})


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_database_that_goes_away_in_the_last_transaction_is_asked_again(queued, home, waits):
    tries = iter([True])

    with away(lambda sql: sql.startswith('INSERT INTO "training_checkpoint"') and next(tries, False)):
        candidate = runs.train(queued)

    assert waits == [patience.RETRY_S]
    assert (again(queued).status, samples(), folders(home)) == ("finished", {"trained"}, [candidate.adapter])


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_last_transaction_that_fails_after_the_run_has_moved_is_tried_again(queued, home, waits, monkeypatch):
    look, tries = runs.taints.look, iter([True])

    def fails_once(*args):
        if next(tries, False):
            raise OperationalError("disk I/O error")
        return look(*args)

    monkeypatch.setattr(runs.taints, "look", fails_once)

    candidate = runs.train(queued)

    assert waits == [patience.RETRY_S]
    assert (again(queued).status, samples(), folders(home)) == ("finished", {"trained"}, [candidate.adapter])


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_commit_that_was_not_heard_of_is_not_done_twice(queued, home, waits, monkeypatch):
    finish = runs._finish

    def unheard(*args):
        checkpoint = finish(*args)
        if not waits:
            raise OperationalError("server closed the connection unexpectedly")
        return checkpoint

    monkeypatch.setattr(runs, "_finish", unheard)

    runs.train(queued)

    assert waits == [patience.RETRY_S]
    assert (again(queued).status, Checkpoint.objects.count(), samples()) == ("finished", 2, {"trained"})
    assert len(folders(home)) == 1


def go_live(candidate):
    Checkpoint.objects.filter(pk=candidate.pk).update(status="approved")
    again(candidate).go_live()


ONE_UPDATE = Recipe(batch_size=3, distillation="vocabulary", lr=1e-2, updates=1)


def test_two_runs_in_a_row_continue_adams_moments(ready, home):
    def next_run():
        for _ in range(3):
            ready(checkpoint=Checkpoint.objects.get(number=0))
        candidate = runs.train(batches.fill(ONE_UPDATE))
        go_live(candidate)
        return load_file(candidate.folder / OPTIMIZER)

    first, second = next_run(), next_run()

    # Adam's second update: m2 = 0.9 m1 + 0.1 g and v2 = 0.98 v1 + 0.02 g². The files hold m1, v1, m2 and v2, so the
    # same g must come out of both; with moments begun anew m1 would not be in m2.
    averages = [name for name in second if name.startswith("exp_avg.")]
    assert averages
    for name in averages:
        square = name.replace("exp_avg.", "exp_avg_sq.")
        gradient = (second[name].double() - 0.9 * first[name].double()) / 0.1
        expected = 0.98 * first[square].double() + 0.02 * gradient**2
        assert second[square].double().allclose(expected, rtol=1e-3, atol=1e-12), name
    assert any(first[name].abs().max() > 0 for name in averages)


def test_a_second_run_that_is_killed_resumes_to_the_very_same_weights(queued, ready, home, monkeypatch):
    go_live(runs.train(queued))
    for _ in range(3):
        ready(checkpoint=Checkpoint.objects.get(number=0))
    run = batches.fill(RECIPE)
    kept = {}

    def killed(run, parent, recipe, made, *rest):
        kept.update({file: load_file(home / made.path / file) for file in (WEIGHTS, OPTIMIZER)})
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runs, "_finish", killed)
        with pytest.raises(KeyboardInterrupt):
            runs.train(run)
    assert again(run).status == "running"
    assert runs.recover() == [run]

    candidate = runs.train(again(run))

    assert candidate.parent.number == 1
    for file, first in kept.items():
        second = load_file(candidate.folder / file)
        assert first.keys() == second.keys()
        assert all(first[name].equal(second[name]) for name in first)


def test_samples_that_grew_too_old_in_the_queue_are_put_away_with_the_reason(ready, home):
    recipe = RECIPE.model_copy(update={"max_age": 0})
    old, alsoold = ready(), ready()
    young = ready()
    run = batches.fill(recipe)
    newer = Checkpoint.objects.create(number=1, parent=Checkpoint.live(), kind="base", status="approved")
    newer.go_live()
    Sample.objects.filter(pk=young.pk).update(checkpoint=newer)

    runs.train(again(run))

    assert again(run).status == "finished"
    assert [again(row).status for row in (old, alsoold, young)] == ["stale", "stale", "trained"]
    assert again(old).drop_reason == (
        "Served by talkback@0, 1 updates of the weights away from talkback@1: at most 0 may lie between."
    )


def test_a_run_whose_samples_all_grew_too_old_fails_and_says_so(queued, home):
    Run.objects.filter(pk=queued.pk).update(recipe=RECIPE.model_copy(update={"max_age": 0}).model_dump())
    Checkpoint.objects.create(number=1, parent=Checkpoint.live(), kind="base", status="approved").go_live()

    assert runs.train(again(queued)) is None

    assert again(queued).error.startswith("Every lesson grew too old, or was taken back, while the run waited")
    assert samples() == {"stale"}


def test_a_sample_that_is_to_be_forgotten_is_put_away_with_its_mark_for_whoever_deletes_it(queued, home):
    Run.objects.filter(pk=queued.pk).update(recipe=RECIPE.model_copy(update={"max_age": 0}).model_dump())
    Checkpoint.objects.create(number=1, parent=Checkpoint.live(), kind="base", status="approved").go_live()
    marked = queued.samples.first()
    Sample.objects.filter(pk=marked.pk).update(drop_reason="its chat was deleted")

    runs.train(again(queued))

    assert (again(marked).status, again(marked).drop_reason) == ("stale", "its chat was deleted")


def hungry(monkeypatch, most):
    """A device with room for so many samples at a time, which is known only once the first of them are learned."""
    scores, tried = learner.Learner._scores, []

    def room_for(self, views, hidden, divergence):
        tried.append(len(views))
        if (len(views) > most and len(tried) > 1) or most == 0:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return scores(self, views, hidden, divergence)

    monkeypatch.setattr(learner.Learner, "_scores", room_for)
    monkeypatch.setattr(policy, "takes_trees", lambda config: False)  # the five are alike, and would be one row
    return tried


@pytest.fixture
def five(ready, home):
    """A run of five samples, four at a time."""

    def five(micro_batch):
        for reward in (-1.0, 1.0, -1.0, 1.0, -1.0):
            ready(reward=reward)
        run = batches.fill(RECIPE.model_copy(update={"batch_size": 5, "micro_batch": micro_batch}))
        Run.objects.filter(pk=run.pk).update(seed=7)  # each begins with the same adapter
        return again(run)

    return five


def test_where_memory_ends_it_goes_on_with_half_and_says_so(five, monkeypatch):
    with monkeypatch.context() as patch:
        tried = hungry(patch, most=2)
        run = five(4)
        runs.train(run)
    # 4 and then 1 fit; the second update's 4 do not, so it is 2, 2 and 1.
    assert tried == [4, 1, 4, 2, 2, 1]
    first, second = again(run).metrics
    assert (first["micro_batch"], second["micro_batch"]) == (4, 2)
    assert "note" not in first
    assert second["note"] == "There was no memory for 4 samples at a time: it went on with 2."


def test_what_was_half_learned_when_memory_ended_is_not_learned_twice(five, monkeypatch):
    with monkeypatch.context() as patch:
        tried = hungry(patch, most=1)
        candidate = runs.train(five(2))
    assert tried[:3] == [2, 2, 1]  # the first two were gone through when the next two did not fit

    monkeypatch.setattr(policy, "takes_trees", lambda config: False)
    enough = runs.train(five(1))

    one, other = (load_file(made.folder / WEIGHTS) for made in (candidate, enough))
    assert all(one[name].equal(other[name]) for name in one)


def test_the_progress_says_how_many_are_left_at_a_time(five, monkeypatch):
    monkeypatch.setattr(run_ledger, "BEAT_S", 0.0)
    phases = []
    write = run_ledger.Ledger._write

    def heard(self, progress):
        write(self, progress)
        phases.append(progress["phase"])

    monkeypatch.setattr(run_ledger.Ledger, "_write", heard)
    hungry(monkeypatch, most=1)

    runs.train(five(2))

    assert "learning, 1 at a time for want of memory" in phases


def test_where_one_sample_is_too_much_the_run_fails_with_a_sentence(five, monkeypatch):
    tried = hungry(monkeypatch, most=0)

    run = five(4)
    assert runs.train(run) is None

    assert tried == [4, 2, 1, 1]  # the last without trees
    assert again(run).error.startswith("There is not enough memory to learn from one sample at a time: lower")
    assert samples() == {"ready"}


def test_an_update_that_is_done_again_takes_the_place_of_its_first_try(queued):
    ledger = run_ledger.Ledger(queued, 1)
    for update, loss in ((1, 3.0), (2, 2.0), (1, 3.1)):  # the processes were begun anew after the second
        ledger.keep({"update": update, "loss": loss, "micro_batch": 1})

    assert [(row["update"], row["loss"]) for row in queued.metrics] == [(1, 3.1)]


def test_the_gap_is_measured_on_what_the_starting_weights_served(queued):
    runs.train(queued)

    first = again(queued).metrics[0]
    assert 0 <= first["gap_mean"] <= first["gap_p99"] < RECIPE.max_gap  # what the learner's dtype rounds
    assert "gap_note" not in first


def test_a_run_without_such_a_sample_says_that_the_gap_was_not_measured(queued, home):
    Checkpoint.objects.create(number=1, parent=Checkpoint.live(), kind="base", status="approved").go_live()

    runs.train(again(queued))

    first = again(queued).metrics[0]
    assert "gap_mean" not in first
    assert first["gap_note"] == "not measured: no sample was served by the weights it starts from"
