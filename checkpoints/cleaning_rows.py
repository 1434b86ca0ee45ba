"""Keep cleanings: lines that are learned anew without what was taken back."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_noop

from core.states import Stateful


class Cleaning(Stateful):
    """A line is learned anew from its last untainted checkpoint, run by run, on the samples that are left."""

    class Status(models.TextChoices):
        QUEUED = gettext_noop("queued")
        RUNNING = gettext_noop("running")
        FINISHED = gettext_noop("finished")
        FAILED = gettext_noop("failed")

    MOVES: ClassVar = {
        Status.QUEUED: {Status.RUNNING, Status.FAILED},
        Status.RUNNING: {Status.FINISHED, Status.FAILED},
        Status.FINISHED: set(),
        Status.FAILED: {Status.QUEUED},  # a person has it go on
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED, db_index=True)
    line = models.ForeignKey("Line", models.PROTECT, related_name="cleanings")
    ancestor = models.ForeignKey("Checkpoint", models.PROTECT, related_name="+")
    """The last one without a taint."""
    replaces = models.ForeignKey("Checkpoint", models.PROTECT, related_name="cleanings")
    """The tainted one in whose place the result is to answer."""
    result = models.ForeignKey("Checkpoint", models.SET_NULL, null=True, blank=True, related_name="+")
    steps = models.JSONField(default=list, blank=True)
    """Numbers of the runs that are repeated, in order."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    removed = models.PositiveIntegerField(default=0)
    """How many of the samples that `replaces` and what it came from had learned are left out."""
    distance = models.JSONField(default=dict, blank=True)
    """How far result and `replaces` are apart, as `judge.clean` measures it; empty: not measured yet."""
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "training_cleaning"
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("line",), condition=Q(status__in=("queued", "running")), name="one_cleaning_a_line"
            ),
        )

    def __str__(self) -> str:
        return f"cleaning {self.pk}"
