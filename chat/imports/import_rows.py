"""Store imports: a file that a person gave, what is in it, and how far its chats are stored."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.utils import timezone

from core.states import Stateful


class ImportQuerySet(models.QuerySet["Import"]):
    def visible_to(self, user: User | AnonymousUser) -> ImportQuerySet:
        """The only door to imports: a person's own."""
        return self.filter(user=user) if user.is_authenticated else self.none()


class Import(Stateful):
    """A file of chats. It is read and shown first; its person says whether it is imported, and the file then goes."""

    class Status(models.TextChoices):
        SHOWN = "shown"  # it waits for its person's yes
        ASKED = "asked"  # a worker stores its chats
        DONE = "done"
        FAILED = "failed"

    MOVES: ClassVar = {
        Status.SHOWN: {Status.ASKED, Status.FAILED},
        Status.ASKED: {Status.DONE, Status.FAILED},
        Status.DONE: set(),
        Status.FAILED: set(),
    }

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    status = models.CharField(max_length=8, choices=Status, default=Status.SHOWN, db_index=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="imports")
    kind = models.CharField(max_length=12)
    """chatgpt | openwebui | talkback"""
    found = models.JSONField(default=dict)
    """What the file holds: chats, messages, thumbs, skipped {reason: count}."""
    done = models.PositiveIntegerField(default=0)
    """Chats that were looked at so far."""
    stored = models.JSONField(default=dict, blank=True)
    """{"chats", "messages", "thumbs", "known"}: what was stored so far, and how many chats were here already."""
    error = models.TextField(blank=True)
    """What went wrong, for the person."""
    created_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    objects = ImportQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"import of {self.user}"

    @property
    def file(self) -> Path:
        """Where the uploaded file lies until its chats are stored."""
        return self.folder() / str(self.pk)

    @staticmethod
    def folder() -> Path:
        """Where uploaded files lie."""
        return Path(settings.DATA_DIR) / "imports"
