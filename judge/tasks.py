"""The judge's tasks: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from celery import Task, shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from chat.rendering import Renderer
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable
from judge import calibration, clean_lines, comparing, erasures, gate, judges, rehearsal, shadows, verdicts
from judge.models import Erasure, Examination
from training import approvals, line_recipes
from training.models import SHARED, Member

LOWEST = 9
"""Redis serves 0 first and 9 last."""


def idly(task: Task, *args: str) -> None:
    """Nudge a worker to do this when it has nothing else to do; with Redis away the sweep does again."""
    with suppress(OperationalError):
        task.apply_async(args, priority=LOWEST, retry=False)


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, retry_backoff_max=30, max_retries=5)
def judge_turn(turn_id: str) -> None:
    """Bring one observed turn to its verdict."""
    line = Member.objects.filter(user__sessions__turns=UUID(turn_id)).values_list("line", flat=True).first()
    judged = verdicts.judge(
        turn_id,
        who=judges.panel(),
        engine=engines.policy(),
        renderer=Renderer.for_model(settings.MODEL),
        recipe=line_recipes.recipe_of(line or SHARED),
    )
    if judged:
        idly(cast_votes)


@shared_task
def cast_votes() -> None:
    """Vote on what people decided lately, one turn at a time, while no person waits for anything."""
    try:
        more = calibration.vote(judges.panel())
    except EngineUnavailable:
        return  # nothing depends on it; the sweep asks again
    if more:
        idly(cast_votes)


@shared_task
def measure(pk: str) -> None:
    """Have the judge of one measuring read another gold follow-up, and come again."""
    if calibration.go_on(int(pk)):
        idly(measure, pk)


@shared_task
def rehearse() -> None:
    """Have the base answer a few ordinary prompts for later runs, and come again, while no person waits for
    anything."""
    try:
        more = rehearsal.answer(engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))
    except EngineUnavailable:
        return  # nothing depends on it; the sweep asks again
    if more:
        idly(rehearse)


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
def examine(checkpoint_id: str) -> None:
    """Examine one candidate against the live checkpoint."""
    gate.examine(checkpoint_id, engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))


@shared_task
def consider(checkpoint_id: str) -> None:
    """Approve what passed the gate, where the line's policy says that it needs no person."""
    exam = Examination.objects.select_related("checkpoint", "against").filter(checkpoint=int(checkpoint_id)).first()
    if exam is not None and exam.passed:
        approvals.consider(exam.checkpoint, exam.checks, exam.against)


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
def erase(pk: str) -> None:
    """Delete what a person asked to have deleted, to the end."""
    erasures.go_on(Erasure.objects.get(pk=pk))
