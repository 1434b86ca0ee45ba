"""Turns as they were served by the scripted engine, and a person who has something to say about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from judge import verdicts
from judge.calibration import scales, vote_floor
from judge.hints import acceptance
from judge.models import Hint
from judge.votes import judges
from tests.doubles.fake_engine import FakeEngine
from training.config import Recipe


@pytest.fixture
def renderer(tiny_model: Path, settings) -> Renderer:
    settings.MODEL = str(tiny_model)
    settings.JUDGE_MAX_NEW_TOKENS = 400
    settings.JUDGE_TEACHES = True
    return Renderer.for_model(tiny_model)


@pytest.fixture
def person(db):
    return get_user_model().objects.create_user("ana")


@pytest.fixture
def serve(person, renderer: Renderer, engine: FakeEngine) -> Callable[..., Turn]:
    """A turn that came back from the engine and then was observed; any field can be said otherwise."""
    session = Session.objects.create(user=person)

    def serve(request="What is 2 and 2?", reply="Two and two are five.", next_state="", role="user", **fields) -> Turn:
        messages = fields.pop("messages", [{"role": "user", "content": request}])
        fields.setdefault("checkpoint", Checkpoint.live())
        fields.setdefault("response_ids", [*renderer.encode(reply), 2])
        fields.setdefault("logprobs", [-0.5] * len(fields["response_ids"]))
        fields.setdefault("session", session)
        fields.setdefault("status", Turn.Status.OBSERVED)
        fields.setdefault("finish_reason", "stop")
        return Turn.objects.create(
            position=session.turns.count(),
            messages=messages,
            prompt_ids=renderer.prompt_ids(messages),
            text=reply,
            sampling={"temperature": 0.7},
            next_state=[{"role": role, "content": next_state}] if next_state else [],
            **fields,
        )

    return serve


@pytest.fixture
def say(person) -> Callable[..., Feedback]:
    def say(turn: Turn, kind: str, text: str = "", value: int = 0, **fields) -> Feedback:
        return Feedback.objects.create(turn=turn, by=person, kind=kind, text=text, value=value, **fields)

    return say


@pytest.fixture
def judge_it(engine: FakeEngine, renderer: Renderer) -> Callable[..., bool]:
    """Bring a turn to its verdict with the scripted engine as judge and as policy."""

    def judge_it(turn: Turn, recipe: Recipe | None = None) -> bool:
        return verdicts.judge(
            str(turn.pk), who=judges.judge(), engine=engine, renderer=renderer, recipe=recipe or Recipe()
        )

    return judge_it


@pytest.fixture(autouse=True)
def judges_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judges count here though they were never measured, and a policy accepts their hints on users' messages from two
    votes of three on; tests of what holds without either ask for `as_shipped`."""
    vote_floor.forget()
    monkeypatch.setattr(vote_floor, "UNKNOWN", 1.0)
    monkeypatch.setattr(scales.Measure, "hints_hold", True)
    monkeypatch.setitem(acceptance.DEFAULTS, Hint.Source.USER, 0.67)


@pytest.fixture
def as_shipped(judges_count: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that was not measured counts for nothing, and a judge's words wait, as everywhere outside these tests."""
    monkeypatch.undo()
    vote_floor.forget()
