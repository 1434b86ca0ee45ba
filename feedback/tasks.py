"""Tasks of feedback: each takes an id, calls one function, and may run twice."""

from __future__ import annotations

from celery import shared_task

from chat.imports.import_rows import Import
from feedback import importing


@shared_task
def import_chats(pk: str) -> None:
    """Store the chats of a file, to the end."""
    importing.go_on(Import.objects.get(pk=pk))
