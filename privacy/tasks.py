"""Tasks of privacy: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from celery import shared_task

from privacy import erasures
from privacy.models import Erasure


@shared_task
def erase(pk: str) -> None:
    """Delete what a person asked to have deleted, to the end."""
    erasure = Erasure.objects.filter(pk=pk).first()
    if erasure is not None:  # it goes with the account, and then nothing is left to delete
        erasures.go_on(erasure)
