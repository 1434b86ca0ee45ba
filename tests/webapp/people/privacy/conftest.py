"""A person's page, and a lesson that they taught."""

from __future__ import annotations

import pytest

from chat.models import Turn
from judge.models import Hint


@pytest.fixture
def page(client, talker):
    """The talker's browser."""
    client.force_login(talker)
    return client


@pytest.fixture
def lesson(make_lesson):
    """A judged turn with votes, a hint and a sample that waits."""
    judgement = make_lesson()
    Hint.objects.create(turn=judgement.turn, source="person", proposed="Be brief, please.", text="Be brief, please.")
    Turn.objects.filter(pk=judgement.turn_id).update(observed_at=judgement.judged_at)
    return judgement
