"""What follows what, and what the sweep finds again."""

from __future__ import annotations

from datetime import timedelta
from inspect import signature

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from kombu.exceptions import OperationalError

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import writers
from checkpoints import repairs
from checkpoints.models import Checkpoint
from gpu_workers.errors import EngineUnavailable
from training import runs
from training.models import Run, Sample
from webapp import pipeline
from webapp.pipeline import ARROWS, Arrow

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch):
    """What was sent to workers: (task, id, expires), and nothing is really sent."""
    sent = []

    def record(task, arguments=(), **options):
        sent.append((task.name.rpartition(".")[2], *arguments, options.get("expires")))

    monkeypatch.setattr("celery.Task.apply_async", record)
    return sent


@pytest.fixture
def quiet(engine, monkeypatch):
    """An engine that holds all it should, so that a sweep sees rows only."""
    return engine


def make_turn(status, **fields):
    user, _ = get_user_model().objects.get_or_create(username="ana")
    session = Session.objects.create(user=user)
    fields |= {"status": status, "checkpoint": Checkpoint.live(), "messages": [], "position": 0}
    return Turn.objects.create(session=session, **fields)


def make_sample(status="ready"):
    return Sample.objects.create(
        checkpoint=Checkpoint.live(), prompt_ids=[1], response_ids=[2], behaviour_logprobs=[-1.0], status=status
    )


def age(row, seconds):
    type(row).objects.filter(pk=row.pk).update(moved_at=timezone.now() - timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("make", "task"),
    [
        (lambda: make_turn("observed"), "judge_turn"),
        (lambda: make_sample(), "fill_batch"),
        (lambda: Run.objects.create(recipe={}), "train"),
        (lambda: Checkpoint.objects.create(number=1), "examine"),
        (lambda: Checkpoint.objects.create(number=1, status="approved"), "promote"),
    ],
)
def test_a_row_that_enters_a_state_sets_its_task_going_once_it_is_committed(
    make, task, sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        row = make()
        assert sent == []
    assert sent == [(task, str(row.pk), None)]


def test_other_states_send_nothing(sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        make_turn("served")
        make_sample("stale")
    assert sent == []


def test_every_arrow_has_a_task_that_takes_one_id():
    for arrow in ARROWS:
        assert len(signature(arrow.task.run).parameters) == 1
        assert arrow.status in arrow.model.MOVES


def test_the_sweep_sends_again_what_waited_too_long(sent, quiet):
    fresh, old = make_turn("observed"), make_turn("observed")
    age(old, 31)
    assert pipeline.sweep() == 1
    assert sent == [("judge_turn", str(old.pk), 30)]
    assert fresh.pk != old.pk


def test_the_oldest_go_first_and_not_too_many_at_once(sent, quiet):
    rows = [make_turn("observed") for _ in range(3)]
    for n, row in enumerate(rows):
        age(row, 100 + n)
    arrow = Arrow(Turn, "observed", ARROWS[0].task, patience_s=30, most=2)
    assert pipeline._send_again(arrow) == 2
    assert [pk for _, pk, _ in sent] == [str(rows[2].pk), str(rows[1].pk)]


def test_with_redis_away_the_row_keeps_the_truth(monkeypatch, quiet):
    def away(*args, **options):
        raise OperationalError("redis is away")

    monkeypatch.setattr("celery.Task.apply_async", away)
    turn = make_turn("observed")
    pipeline.follow(Turn, turn.pk, "observed")
    age(turn, 100)
    assert pipeline.sweep() == 1


def test_the_sweep_closes_replies_whose_writer_is_gone(sent, quiet):
    turn = make_turn("answering")
    age(turn, writers.SILENCE_S + 1)
    pipeline.sweep()
    turn.refresh_from_db()
    assert turn.status == "closed"
    assert turn.error


def test_the_sweep_takes_back_runs_whose_worker_is_gone(sent, quiet, django_capture_on_commit_callbacks):
    silent = timezone.now() - timedelta(seconds=runs.SILENCE_S + 1)
    run = Run.objects.create(recipe={}, status="running", attempts=1, heartbeat_at=silent)
    with django_capture_on_commit_callbacks(execute=True):
        pipeline.sweep()
    run.refresh_from_db()
    assert run.status == "queued"
    assert ("train", str(run.pk), None) in sent


def test_the_sweep_has_the_engine_hold_what_it_forgot(sent, engine):
    base = Checkpoint.live()
    live = Checkpoint.objects.create(number=1, adapter="talkback-1-x", path="checkpoints/1", status="approved")
    assert engine.loaded == {}
    pipeline.sweep()
    assert engine.loaded == {live.adapter: str(live.folder)}
    assert base.status == "live"


def test_an_engine_that_is_away_keeps_nothing_else_waiting(sent, engine, monkeypatch):
    async def away():
        raise EngineUnavailable("the engine is being started again")

    monkeypatch.setattr(repairs, "repair", away)
    engine.goes_down()
    turn = make_turn("observed")
    age(turn, 100)
    assert pipeline.sweep() == 1


def test_the_sweep_closes_conversations_that_are_not_continued(quiet, settings, django_user_model):
    settings.SESSION_IDLE_S = 60
    ana = django_user_model.objects.create_user("ana")
    key, _ = ApiKey.objects.issue(ana, "laptop")
    long_ago = timezone.now() - timedelta(seconds=61)
    idle = Session.objects.create(user=ana, key=key, active_at=long_ago)
    fresh = Session.objects.create(user=ana, key=key)
    open_in_browser = Session.objects.create(user=ana, active_at=long_ago)

    pipeline.sweep()

    closed = {session.pk: session.closed_at is not None for session in Session.objects.all()}
    assert closed == {idle.pk: True, fresh.pk: False, open_in_browser.pk: False}
