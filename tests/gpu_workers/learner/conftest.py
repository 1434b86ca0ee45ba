"""A learner of the tiny model."""

from __future__ import annotations

import pytest

from gpu_workers.learner.learner import Learner


@pytest.fixture
def learner(tiny_model):
    return Learner(tiny_model, dtype="float32", piece=3)
