"""The judge is measured against what people decided, when nobody waits for anything."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from gpu_workers.errors import EngineUnavailable
from judge import calibration, judges
from judge.models import Judgement, Sitting, Vote
from training.models import Run


@pytest.fixture
def decided(serve, say, judge_it, engine):
    """A turn with a next message that a thumb has decided."""

    def decided(next_state="Thanks!", **fields):
        turn = serve(next_state=next_state, **fields)
        say(turn, "thumb", value=1)
        judge_it(turn)
        return turn

    return decided


def test_votes_come_after_the_verdict_and_change_nothing(decided, engine):
    turn = decided()
    before = Judgement.objects.values().get()
    assert not Vote.objects.exists()
    engine.says(r"\boxed{-1}", times=None)

    assert calibration.vote(judges.judge())

    assert {vote.question for vote in Vote.objects.filter(turn=turn)} == {"score", "hint"}
    assert Judgement.objects.values().get() == before
    assert {call.priority for call in engine.asked("generate")} == {-1}
    assert not calibration.vote(judges.judge())  # once is enough


def test_a_thumb_alone_gives_a_judge_nothing_to_read(decided):
    decided(next_state="")
    assert not calibration.due().exists()


def test_reasons_alone_are_read_for_a_hint_and_never_for_a_score(serve, say, judge_it, engine, settings):
    settings.JUDGE_TEACHES = False
    turn = serve()
    say(turn, "thumb", value=-1, tags=["too long"])
    judge_it(turn)
    assert calibration.vote(judges.judge())
    assert {vote.question for vote in Vote.objects.filter(turn=turn)} == {"hint"}


def test_they_can_be_switched_off(decided, settings):
    decided()
    settings.CALIBRATION_VOTES = False
    assert not calibration.is_due()
    assert not calibration.vote(judges.judge())


@pytest.mark.parametrize("busy", ["reply", "verdict", "run"])
def test_they_wait_while_anybody_waits(decided, serve, busy):
    decided()
    assert calibration.is_due()
    if busy == "run":
        Run.objects.create(recipe={})
    else:
        serve(status={"reply": "answering", "verdict": "observed"}[busy])
    assert not calibration.is_due()
    assert not calibration.vote(judges.judge())


def test_one_at_a_time(decided):
    decided()
    Sitting.objects.create(matter="calibration", until=timezone.now() + timedelta(minutes=1))
    assert not calibration.vote(judges.judge())
    assert not Vote.objects.exists()


def test_yesterdays_backlog_is_left_alone(decided):
    decided()
    Judgement.objects.update(judged_at=timezone.now() - timedelta(days=1))
    assert not calibration.is_due()


def test_a_judge_that_is_away_is_asked_another_time(decided, engine):
    decided()
    engine.goes_down()
    with pytest.raises(EngineUnavailable):
        calibration.vote(judges.judge())
    assert calibration.is_due()
