"""A learner that is asked to stop: its run is finished or queued again, and never fails for that."""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint
from core import stops
from core.stops import Watch
from gpu_workers.errors import NothingLearned
from training import batches, hours, learning, runs
from training.config import Recipe
from training.launch import GroupEnded
from training.models import Run, Sample
from training.running import orphans, run_ledger

RECIPE = Recipe(batch_size=2, distillation="vocabulary", lr=1e-2, updates=2, micro_batch=1)


@pytest.fixture
def queued(ready, home):
    ready(), ready()
    return batches.fill(RECIPE)


@pytest.fixture
def worker(monkeypatch):
    """A process that stops in good order, for as long as the `with` lasts."""

    @contextmanager
    def worker(limit_s=30.0):
        with monkeypatch.context() as patch:
            patch.setattr(stops, "_watch", Watch(limit_s, end=lambda status: None))
            yield stops._watch

    return worker


@pytest.fixture
def during(monkeypatch):
    """Has something happen after so many samples of the updates, once."""

    def during(samples, happens):
        keep = [happens]
        beat = run_ledger.Ledger.beat

        def beaten(ledger, phase, done, total, **options):
            beat(ledger, phase, done, total, **options)
            if phase.startswith("learning") and done >= samples and keep:
                keep.pop()()

        monkeypatch.setattr(run_ledger.Ledger, "beat", beaten)

    return during


def again(row):
    return type(row).objects.get(pk=row.pk)


def told(run):
    row = again(run)
    return row.status, row.attempts, row.error, set(Sample.objects.values_list("status", flat=True))


def test_a_run_that_would_take_too_long_is_queued_again_with_its_samples_claimed(queued, worker, during):
    with worker() as watch:
        during(1, lambda: (watch.ask(), watch.ask()))  # twice: at once
        assert runs.train(again(queued)) is None
    assert told(queued) == ("queued", 0, "", {"claimed"})
    assert again(queued).progress == {}
    assert not Checkpoint.objects.filter(number__gt=0).exists()

    assert runs.train(again(queued)) is not None
    assert told(queued) == ("finished", 1, "", {"trained"})


def test_a_run_that_ends_in_time_is_finished(queued, worker, during):
    with worker(limit_s=600) as watch:
        during(1, watch.ask)
        assert runs.train(again(queued)) is not None
    assert told(queued) == ("finished", 1, "", {"trained"})


def test_a_run_of_which_all_is_learned_is_saved_however_late_it_is(queued, worker, during):
    with worker() as watch:
        during(4, lambda: (watch.ask(), watch.ask()))  # two updates of two samples
        assert runs.train(again(queued)) is not None
    assert told(queued) == ("finished", 1, "", {"trained"})


def test_a_run_that_is_stopped_more_often_than_workers_may_die_does_not_fail(ready, home, worker, during):
    ready(), ready()
    queued = batches.fill(RECIPE.model_copy(update={"updates": 20}))
    for _ in range(runs.ATTEMPTS + 1):
        with worker() as watch:
            during(1, lambda watch=watch: (watch.ask(), watch.ask()))
            assert runs.train(again(queued)) is None
    assert runs.recover() == []
    assert told(queued) == ("queued", 0, "", {"claimed"})


def test_a_stop_after_a_worker_died_forgets_no_death(queued, worker, during):
    Run.objects.filter(pk=queued.pk).update(attempts=2)
    with worker() as watch:
        during(1, lambda: (watch.ask(), watch.ask()))
        runs.train(again(queued))
    assert again(queued).attempts == 2


def test_a_run_goes_on_after_the_last_update_that_was_done(queued, home, worker, during):
    with worker() as watch:
        during(2, lambda: (watch.ask(), watch.ask()))  # in the first of two updates, of two samples each
        assert runs.train(again(queued)) is None
    assert [path.name for path in (home / "snapshots").iterdir()] == [str(queued.pk)]

    seen = []
    during(0, lambda: seen.append(again(queued).progress))
    assert runs.train(again(queued)) is not None

    # Looking at two samples is done, and half of two updates, which are twelve: 8 of 14.
    assert seen[0] | {"eta_s": 0} == {"phase": "learning", "done": 2, "total": 4, "share": 0.5714, "eta_s": 0}
    assert [row["update"] for row in again(queued).metrics] == [1, 2]
    assert list((home / "snapshots").iterdir()) == []


def test_the_snapshot_of_a_run_that_is_cancelled_goes(queued, home, worker, during):
    with worker() as watch:
        during(2, lambda: (watch.ask(), watch.ask()))
        runs.train(again(queued))
    runs.cancel(queued)
    orphans.clear_orphans(only_broken=True)  # as the sweep does
    assert list((home / "snapshots").iterdir()) == []


@pytest.mark.parametrize("failure", [GroupEnded("They were told to end too."), OSError("The database is gone.")])
def test_what_fails_while_the_worker_stops_is_done_again(queued, worker, monkeypatch, failure):
    with worker() as watch, monkeypatch.context() as patch:

        def update(*args):
            watch.ask()
            raise failure

        patch.setattr(learning, "_update", update)
        assert runs.train(again(queued)) is None
    assert told(queued) == ("queued", 0, "", {"claimed"})


def test_what_fails_before_the_worker_stops_fails(queued, worker, monkeypatch):
    def update(*args):
        raise NothingLearned("There was nothing.")

    monkeypatch.setattr(learning, "_update", update)
    with worker():
        assert runs.train(again(queued)) is None
    assert told(queued) == ("failed", 1, "There was nothing.", {"ready"})


def test_a_person_who_cancels_while_the_worker_stops_is_obeyed(queued, worker, during, monkeypatch):
    monkeypatch.setattr(run_ledger, "BEAT_S", 0.0)
    with worker(limit_s=600) as watch:
        during(1, lambda: (watch.ask(), runs.cancel(queued)))
        assert runs.train(again(queued)) is None
    assert told(queued) == ("failed", 1, "Stopped by a person before it had changed anything.", {"ready"})


def test_a_run_that_was_stopped_goes_on_outside_its_hours(queued, worker, during, settings, monkeypatch):
    with worker() as watch:
        during(1, lambda: (watch.ask(), watch.ask()))
        runs.train(again(queued))
    noon = timezone.now().replace(hour=12)
    settings.LEARN_HOURS = "22:00-07:00"
    monkeypatch.setattr(hours.timezone, "localtime", lambda timezone=None: noon)
    assert runs.train(again(queued)) is not None


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_a_run_that_says_nothing_until_the_process_ends_is_queued_again(queued, monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(stops, "_watch", watch := Watch(6, end=lambda status: ended.set()))
    watch.start()

    def hangs(*args):
        watch.ask()
        watch.ask()
        assert ended.wait(30)
        for thread in threading.enumerate():  # on a busy machine it ends after the 0.8 s that a process would give it
            if thread.name == "stop: handing back":
                thread.join(30)
        raise KeyboardInterrupt  # the process is gone

    monkeypatch.setattr(learning, "_update", hangs)
    with pytest.raises(KeyboardInterrupt):
        runs.train(again(queued))
    assert told(queued) == ("queued", 0, "", {"claimed"})


def test_the_pace_is_that_of_learning_and_not_of_loading(queued, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(run_ledger.time, "monotonic", lambda: now[0])
    ledger = run_ledger.Ledger(queued, work=10)
    now[0] += 60  # a model is loaded
    monkeypatch.setattr(ledger, "_write", lambda progress: None)
    ledger.beat("teacher", 0, 2)
    assert ledger._left_s(now[0]) == math.inf
    now[0] += 2
    ledger.beat("teacher", 1, 2, work=1)
    assert ledger._left_s(now[0]) == 18  # nine more, two seconds each
