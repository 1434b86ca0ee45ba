"""Replies that a person rated, and pairs to choose from."""

from __future__ import annotations

from datetime import timedelta

import pytest

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from evaluation.models import Shadow
from feedback.models import Feedback
from judge.models import Judgement
from tests.webapp.people.helped.choices import START


@pytest.fixture(autouse=True)
def house(settings, tiny_model, db):
    settings.MODEL, settings.MODEL_NAME, settings.SHADOW_SHARE = str(tiny_model), "talkback", 0.05


@pytest.fixture
def page(client, talker):
    """The talker's browser."""
    client.force_login(talker)
    return client


@pytest.fixture
def base(db):
    return Checkpoint.objects.get(number=0)


@pytest.fixture
def learned(base):
    """A checkpoint that was trained, and is live."""
    Checkpoint.objects.filter(number=0).update(status="retired")
    return Checkpoint.objects.create(number=1, status="live", adapter="talkback-1", path="checkpoints/1")


@pytest.fixture
def rated(talker):
    """A conversation of one reply, received so: by a thumb, a correction, a verdict, or nothing."""
    made = iter(range(1000))

    def rated(checkpoint, *, thumb=None, correction="", reward=None, by=talker, session=None, **fields):
        session = session or Session.objects.create(user=by)
        turn = Turn.objects.create(
            session=session,
            position=session.turns.count(),
            checkpoint=checkpoint,
            messages=[{"role": "user", "content": "Why is the sky blue?"}],
            created_at=START + timedelta(hours=next(made)),
            **{"status": "judged", "text": "It scatters.", "response_ids": [8, 9, 2], "finish_reason": "stop"} | fields,
        )
        if thumb:
            Feedback.objects.create(turn=turn, by=by, kind="thumb", value=thumb)
        if correction:
            Feedback.objects.create(turn=turn, by=by, kind="guidance", text=correction)
        if reward is not None:
            Judgement.objects.create(turn=turn, reward=reward, reward_from="votes")
        return turn

    return rated


@pytest.fixture
def paired(rated, base, learned):
    """A turn that both answered."""

    def paired(reply="Because blue light scatters most.", shadow="The sky is blue. " * 3, figures=None, **fields):
        turn = rated(learned, text=reply, **fields)
        return Shadow.objects.create(
            turn=turn, checkpoint=base, text=shadow, finish_reason="stop", response_ids=[8, 2], figures=figures or {}
        )

    return paired
