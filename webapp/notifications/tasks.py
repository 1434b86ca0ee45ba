"""Deliver messages as Celery tasks."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from webapp.notifications import sending


@shared_task(bind=True, max_retries=None)
def deliver(self: object, pk: str) -> None:
    """Try one delivery; one that failed comes again when its next try is due."""
    one = sending.deliver(UUID(pk))
    if one is not None and one.status == one.Status.WAITING:
        self.apply_async((pk,), countdown=sending.pause_s(one.attempts), retry=False)  # type: ignore[attr-defined]
