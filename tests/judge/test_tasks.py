"""The thin edge: an id comes in, and only what is worth another try is tried again."""

from __future__ import annotations

import pytest
from celery.exceptions import Retry
from kombu.exceptions import OperationalError

from chat.models import Turn
from gpu_workers.errors import EngineUnavailable
from judge import tasks
from judge.models import Vote


@pytest.fixture
def nudges(monkeypatch):
    nudges = []
    monkeypatch.setattr(tasks.cast_votes, "apply_async", lambda args, **options: nudges.append((args, options)))
    return nudges


def test_a_judged_turn_asks_for_calibration_last_of_all(serve, say, nudges):
    turn = serve()
    say(turn, "thumb", value=1)
    tasks.judge_turn(str(turn.pk))
    assert Turn.objects.get(pk=turn.pk).status == "judged"
    assert nudges == [((), {"priority": 9, "retry": False})]


def test_a_turn_that_is_judged_already_asks_for_nothing(serve, nudges):
    tasks.judge_turn(str(serve(status="judged").pk))
    assert nudges == []


def test_an_engine_that_is_away_is_worth_another_try(serve, say, engine, nudges):
    turn = serve()
    say(turn, "thumb", value=1)
    engine.goes_down()
    with pytest.raises((Retry, EngineUnavailable)):
        tasks.judge_turn(str(turn.pk))
    assert Turn.objects.get(pk=turn.pk).status == "observed"


def test_votes_follow_one_another_until_there_are_no_more(serve, say, engine, nudges, renderer):
    for _ in range(2):
        turn = serve(next_state="Thanks!")
        say(turn, "thumb", value=1)
        tasks.judge_turn(str(turn.pk))
    nudges.clear()
    engine.says(r"\boxed{1}", times=None)
    for left in (True, True, False):
        tasks.cast_votes()
        assert bool(nudges) == left
        nudges.clear()
    assert Vote.objects.values("turn").distinct().count() == 2


def test_calibration_gives_way_when_the_judge_or_redis_is_away(serve, say, engine, monkeypatch, renderer):
    def away(args, **options):
        raise OperationalError("redis is away")

    monkeypatch.setattr(tasks.cast_votes, "apply_async", away)
    turn = serve(next_state="Thanks!")
    say(turn, "thumb", value=1)
    tasks.judge_turn(str(turn.pk))
    assert Turn.objects.get(pk=turn.pk).status == "judged"
    engine.goes_down()
    tasks.cast_votes()
    assert not Vote.objects.exists()
