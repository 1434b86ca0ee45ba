"""The frozen control: the base answers some of what others answered, unseen, while no person waits."""

from __future__ import annotations

import pytest

from chat import turns
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from evaluation import shadows, tasks
from evaluation.models import Shadow
from gpu_workers.errors import EngineRefused, EngineUnavailable
from training.models import Sample
from webapp import pipeline


@pytest.fixture(autouse=True)
def all_of_them(settings, renderer, db):
    settings.SHADOW_SHARE, settings.SHADOW_PER_HOUR = 1.0, 20


@pytest.fixture
def learned(db):
    """A checkpoint that was trained, and is live."""
    Checkpoint.objects.filter(number=0).update(status="retired")
    return Checkpoint.objects.create(number=1, status="live", adapter="talkback-1", path="checkpoints/1")


@pytest.fixture
def served(serve, learned):
    return lambda **fields: serve(**{"checkpoint": learned, "status": "judged"} | fields)


def test_the_base_answers_the_same_prompt_after_everybody_else(served, engine):
    turn = served()
    engine.says("Four.")

    assert not shadows.answer(engine=engine)

    (call,) = engine.asked("generate")
    assert call.prompt_ids == tuple(turn.prompt_ids)
    assert (call.adapter, call.priority, call.sampling.temperature) == (None, -1, 0.7)
    shadow = Shadow.objects.get()
    assert (shadow.turn, shadow.checkpoint.number, shadow.text) == (turn, 0, "Four.")
    assert shadow.figures["shadow"]["length"] == len(shadow.response_ids)
    base = engine.logprobs(turn.prompt_ids, turn.response_ids, None)
    assert shadow.figures["reply"] == {
        "length": len(turn.response_ids),
        "repetition": 0.0,
        "logprob": -0.5,
        "under_base": round(sum(base) / len(base), 4),
        "checkpoint": 1,
    }
    assert [call.adapter for call in engine.asked("score")] == [None, None]  # both replies, by the base


def test_asking_again_asks_no_engine_and_nothing_is_made_of_it(served, engine):
    served()
    shadows.answer(engine=engine)
    shadows.answer(engine=engine)
    assert Shadow.objects.count() == len(engine.asked("generate")) == 1
    assert not Sample.objects.exists()
    assert Turn.objects.count() == 1


@pytest.mark.parametrize(
    "fields",
    [{"learns": False}, {"line": "side"}, {"finish_reason": "abort"}, {"finish_reason": "length"}],
    ids=["off the record", "side", "stopped", "cut"],
)
def test_only_what_may_teach_is_asked(fields, served, engine):
    served(**fields)
    assert not shadows.is_due()


def test_the_bases_own_replies_are_their_own_control(serve):
    serve(status="judged", checkpoint=Checkpoint.objects.get(number=0))
    assert not shadows.is_due()


def test_a_chat_off_the_record_loses_its_shadows(served, engine):
    turn = served()
    shadows.answer(engine=engine)
    turns.set_learning(turn.session, False)
    assert not shadows.standing().exists()
    pipeline.sweep()
    assert not Shadow.objects.exists()


def test_a_shadow_goes_with_its_turn(served, engine):
    turn = served()
    shadows.answer(engine=engine)
    Session.objects.get(pk=turn.session_id).delete()
    assert not Shadow.objects.exists()


def test_what_was_put_off_the_record_meanwhile_is_not_kept(served, engine, monkeypatch):
    turn = served()

    def measured(*figures):
        Turn.objects.filter(pk=turn.pk).update(learns=False)
        return {}

    monkeypatch.setattr(shadows, "measured", measured)
    shadows.answer(engine=engine)
    assert not Shadow.objects.exists()


def test_no_person_is_made_to_wait_and_an_hour_has_its_bound(served, engine, settings):
    turn = served()
    Turn.objects.filter(pk=turn.pk).update(status="answering")
    assert not shadows.is_due()
    Turn.objects.filter(pk=turn.pk).update(status="judged")
    settings.SHADOW_PER_HOUR = 1
    served()
    shadows.answer(engine=engine)
    assert (Shadow.objects.count(), shadows.is_due()) == (1, False)
    settings.SHADOW_PER_HOUR, settings.SHADOW_SHARE = 20, 0.0
    assert not shadows.is_due()


def test_an_engine_that_is_away_or_refuses_harms_nothing(served, engine):
    served()
    engine.goes_down()
    tasks.shadow()
    assert not Shadow.objects.exists()
    with pytest.raises(EngineUnavailable):
        shadows.answer(engine=engine)
    engine.goes_down(EngineRefused("No."))
    tasks.shadow()
    assert Shadow.objects.get().finish_reason == "error"  # it is not asked again


def test_the_sweep_has_them_asked(served, engine, monkeypatch):
    sent = []
    monkeypatch.setattr("celery.Task.apply_async", lambda task, *arguments, **options: sent.append(task.name))
    served()
    pipeline.sweep()
    assert "evaluation.tasks.shadow" in sent
