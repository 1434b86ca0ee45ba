"""The tasks of comparing: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from contextlib import suppress

from celery import shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from chat.rendering.renderer import Renderer
from evaluation import clean_lines, comparing, shadows, weight_files
from evaluation.datasets import exporting, importing
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable
from judge.tasks import idly


@shared_task
def shadow() -> None:
    """Have the base answer a few turns that others answered, and come again, while no person waits for anything."""
    try:
        more = shadows.answer(engine=engines.policy())
    except EngineUnavailable:
        return  # nothing depends on it; the sweep asks again
    if more:
        idly(shadow)


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, retry_backoff_max=30, max_retries=5)
def compare_clean(pk: str) -> None:
    """Say how far a clean line is from what it is to replace."""
    clean_lines.measure(int(pk), engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))


def compare_clean_later(pk: int) -> None:
    """Nudge a worker to compare a clean line; with Redis away the sweep does again."""
    with suppress(OperationalError):
        compare_clean.apply_async((str(pk),), retry=False)


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, retry_backoff_max=30, max_retries=5)
def compare(pk: str) -> None:
    """Have two checkpoints answer the same prompts."""
    comparing.answer(int(pk), engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))


@shared_task
def write_dataset(pk: str) -> None:
    """Write the files of a dataset that was asked for."""
    exporting.make(int(pk))


@shared_task
def read_examples(pk: str) -> None:
    """Read a file of examples that an operator brought."""
    importing.look(int(pk))


@shared_task
def take_examples(pk: str) -> None:
    """Make lessons of examples that a person said yes to."""
    importing.take(int(pk), renderer=Renderer.for_model(settings.MODEL))


@shared_task
def write_weights(pk: str) -> None:
    """Write a checkpoint's weights for other tools, where there is a learner."""
    weight_files.make(int(pk))
