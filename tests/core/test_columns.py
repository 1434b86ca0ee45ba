"""Long JSON is stored as the standard library would store it, and read back as it was."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth import get_user_model
from django.db import models
from hypothesis import given
from hypothesis import strategies as st

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from core.columns import LongJSON, Quick

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_means_the_same(value):
    assert json.loads(Quick().encode(value)) == json.loads(json.dumps(value))


@pytest.mark.django_db
def test_a_number_beyond_64_bits_is_kept():
    session = Session.objects.create(user=get_user_model().objects.create_user("ana"))
    said = [{"role": "user", "content": "Big.", "n": 2**80}]
    turn = Turn.objects.create(session=session, position=0, checkpoint=Checkpoint.live(), messages=said)
    assert Turn.objects.get(pk=turn.pk).messages == said


def test_migrations_see_a_json_field():
    assert LongJSON(default=list).deconstruct() == models.JSONField(default=list).deconstruct()
