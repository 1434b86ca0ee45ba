"""Rows to learn from, as the engine and the judge would have left them for the tiny model."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from training.models import Sample

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]


@pytest.fixture
def home(settings, tiny_model, tmp_path):
    """An installation with the tiny model and a folder of its own."""
    settings.MODEL, settings.DATA_DIR, settings.RECIPE = str(tiny_model), tmp_path, ""
    return tmp_path


@pytest.fixture(scope="session")
def served(tiny_model):
    """What the base gives RESPONSE after PROMPT, at temperature 1."""
    from gpu_workers.learner.learner import Learner

    return Learner(tiny_model, dtype="float32").score(PROMPT, RESPONSE)


@pytest.fixture
def ready(db, served):
    """A READY sample of the live checkpoint: corrected, unless told otherwise."""

    def ready(**fields):
        return Sample.objects.create(
            **{
                "checkpoint": Checkpoint.live(),
                "prompt_ids": PROMPT,
                "response_ids": RESPONSE,
                "behaviour_logprobs": served,
                "teacher_prompt_ids": HINTED,
                "reward": 0.0,
            }
            | fields
        )

    return ready
