"""The gate's tasks: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from celery import shared_task
from django.conf import settings

from chat.rendering.renderer import Renderer
from checkpoints import approvals
from gate import exam
from gate.models import Examination
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable


@shared_task(autoretry_for=(EngineUnavailable,), retry_backoff=True, retry_backoff_max=30, max_retries=5)
def examine(checkpoint_id: str) -> None:
    """Examine one candidate against the live checkpoint."""
    exam.examine(checkpoint_id, engine=engines.policy(), renderer=Renderer.for_model(settings.MODEL))


@shared_task
def consider(checkpoint_id: str) -> None:
    """Approve what passed the gate, where the line's policy says that it needs no person."""
    found = Examination.objects.select_related("checkpoint", "against").filter(checkpoint=int(checkpoint_id)).first()
    if found is not None and found.passed:
        approvals.consider(found.checkpoint, found.checks, found.against)
