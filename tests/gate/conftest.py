"""A candidate and its exam, on turns that the scripted engine served."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from gate import exam
from gate.models import Examination
from tests.gate.candidates import LIMITS
from tests.rows import made_by
from tests.served_turns import *  # noqa: F403  fixtures
from training.models import Run


@pytest.fixture
def candidate(engine, renderer, db):
    """A candidate that the engine answers for as its learner would."""
    adapter = "talkback-1-aaaaaaaa"
    return made_by(
        Run.objects.create(recipe={}),
        Checkpoint.objects.create(
            number=1,
            adapter=adapter,
            path="checkpoints/1",
            parent=Checkpoint.live(),
            probe=engine.probe(adapter),
        ),
    )


@pytest.fixture
def examine(engine, renderer, candidate, monkeypatch):
    monkeypatch.setattr(exam, "HANDFUL", 2)  # so that four prompts are two handfuls

    def examine(limits=LIMITS):
        exam.examine(str(candidate.pk), engine=engine, renderer=renderer, limits=limits)
        candidate.refresh_from_db()
        return Examination.objects.get(checkpoint=candidate)

    examine.renderer = renderer
    return examine
