"""The judge's tasks: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from celery import Task, shared_task
from django.conf import settings
from kombu.exceptions import OperationalError

from chat.rendering.renderer import Renderer
from checkpoints.models import SHARED, Member
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable
from judge import steps, verdicts
from judge.calibration import measuring
from judge.samples import base_answers
from judge.votes import judges
from training import line_recipes

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


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, retry_backoff_max=30, max_retries=5)
def judge_episode(episode_id: str) -> None:
    """Bring the steps of an episode that has ended to their verdicts."""
    line = Member.objects.filter(user__groups_played__episodes=UUID(episode_id)).values_list("line", flat=True).first()
    judged = steps.judge(
        UUID(episode_id),
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
        more = measuring.vote(judges.panel())
    except EngineUnavailable:
        return  # nothing depends on it; the sweep asks again
    if more:
        idly(cast_votes)


@shared_task
def measure(pk: str) -> None:
    """Have the judge of one measuring read another gold follow-up, and come again."""
    if measuring.go_on(int(pk)):
        idly(measure, pk)


@shared_task
def rehearse() -> None:
    """Have the base answer a few ordinary prompts for later runs, and come again, while no person waits for
    anything."""
    try:
        more = base_answers.answer(engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))
    except EngineUnavailable:
        return  # nothing depends on it; the sweep asks again
    if more:
        idly(rehearse)
