"""Tasks of tools: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from celery import shared_task

from chat.tools import takeovers
from gpu_workers import engines


@shared_task
def take_up(pk: str) -> bool:
    """Go on with a reply whose process is gone."""
    return _take_up(int(pk))


@async_to_sync
async def _take_up(pk: int) -> bool:
    engine = engines.policy()
    try:
        return await takeovers.take_up(pk, engine)
    finally:
        await engine.aclose()  # this event loop ends here, and its connections with it
