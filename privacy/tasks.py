"""Tasks of privacy: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from celery import shared_task

from privacy import erasures
from privacy.models import Erasure


@shared_task
def erase(pk: str) -> None:
    """Delete what a person asked to have deleted, to the end."""
    erasures.go_on(Erasure.objects.get(pk=pk))
