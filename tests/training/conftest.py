"""An installation of its own, and samples to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db.models.signals import pre_save

from checkpoints.models import Checkpoint
from tests.ready_attempts import *  # noqa: F403  fixtures
from tests.ready_samples import *  # noqa: F403  fixtures
from training import batches
from training.config import Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=3, distillation="vocabulary", lr=1e-2, updates=2)


def descend(count):
    """Checkpoints one after the other, the last of them live."""
    for _ in range(count):
        live = Checkpoint.live()
        candidate = Checkpoint.objects.create(number=live.number + 1, parent=live, status="approved")
        candidate.go_live()


@contextmanager
def another_process_is_quicker(first: Sample) -> Iterator[None]:
    """A new run, as it is written, finds that another has claimed this sample just before."""

    def claim(sender: type[Run], instance: Run, **kwargs: object) -> None:
        if instance.pk is None:
            Sample.objects.filter(pk=first.pk).update(status="claimed")

    pre_save.connect(claim, sender=Run)
    try:
        yield
    finally:
        pre_save.disconnect(claim, sender=Run)


AWAITING = Recipe(batch_size=4, w_sft=1.0, awaits=0.5)
"""A run waits for two rewrites, or for 6 · 4 samples without."""


@pytest.fixture
def rewritten(ready):
    return lambda: ready(rewrite_ids=[5, 6, 2])


@pytest.fixture
def liked(ready):
    """What a judge's votes alone found good."""
    return lambda **fields: ready(**{"teacher_prompt_ids": None, "reward": 1.0, "voted": True} | fields)


def samples():
    return set(Sample.objects.values_list("status", flat=True))


@pytest.fixture
def queued(ready, home):
    """A run of three samples: one blamed and corrected, one praised, one only corrected."""
    ready(reward=-1.0), ready(reward=1.0, teacher_prompt_ids=None), ready()
    return batches.fill(RECIPE)
