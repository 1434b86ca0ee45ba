"""Erasures: what a person asked to have deleted."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from core.states import Stateful


class Erasure(Stateful):
    """A person asked that everything of theirs goes. Their conversations are deleted in slices, and counted here: not a
    word of them is."""

    class Status(models.TextChoices):
        ASKED = "asked"
        DONE = "done"

    MOVES: ClassVar = {Status.ASKED: {Status.DONE}, Status.DONE: set()}

    status = models.CharField(max_length=8, choices=Status, default=Status.ASKED, db_index=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="erasures")
    total = models.PositiveIntegerField()
    """Conversations there were when it was asked for; what is begun afterwards stays."""
    gone = models.JSONField(default=dict, blank=True)
    """{"conversations", "replies", "feedback", "samples", "learned", "keys"}: how many went so far."""
    checkpoints = models.JSONField(default=list, blank=True)
    """Numbers of those whose weights learned from what went."""
    asked_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "judge_erasure"
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(fields=("user",), condition=models.Q(status="asked"), name="one_erasure_at_a_time"),
        )

    def __str__(self) -> str:
        return f"erasure {self.pk}"
