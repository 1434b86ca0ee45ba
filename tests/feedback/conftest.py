"""A reply that a person has something to say of."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana")


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben")


def answer(user: User) -> Turn:
    """A reply of the base, in a chat of its own."""
    return Turn.objects.create(
        session=Session.objects.create(user=user),
        position=0,
        status=Turn.Status.SERVED,
        checkpoint=Checkpoint.live(),
        messages=[{"role": "user", "content": "2 + 2?"}],
        text="Five.",
        response_ids=[1],
        finish_reason="stop",
    )


@pytest.fixture
def turn(ana) -> Turn:
    return answer(ana)


@pytest.fixture
def key(ana) -> ApiKey:
    key, key.secret = ApiKey.objects.issue(ana, "laptop")  # type: ignore[attr-defined]
    return key
