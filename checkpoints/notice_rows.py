"""Keep notices: what an operator must hear of that happened without one."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_noop


class Notice(models.Model):
    """Something an operator has to know that happened without one: a roll back by the guard, a swap that undid itself,
    a disk that fills. It stands in the console until an operator has read it."""

    class Level(models.TextChoices):
        INFO = gettext_noop("info")
        WARNING = gettext_noop("warning")
        ERROR = gettext_noop("error")

    level = models.CharField(max_length=8, choices=Level, default=Level.INFO)
    key = models.CharField(max_length=120, blank=True)
    """What it is about: of one key one notice stands at a time."""
    text = models.TextField()
    checkpoint = models.ForeignKey("Checkpoint", models.SET_NULL, null=True, blank=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    read_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    read_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "training_notice"
        ordering = ("-at", "-pk")
        constraints = (
            models.UniqueConstraint(fields=("key",), condition=Q(read_at=None) & ~Q(key=""), name="one_notice_a_key"),
        )

    def __str__(self) -> str:
        return self.text
