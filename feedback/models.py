"""What somebody, or a test, said about a turn."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chat.models import Turn


class FeedbackQuerySet(models.QuerySet["Feedback"]):
    def standing(self) -> FeedbackQuerySet:
        """What was not withdrawn or replaced."""
        return self.filter(withdrawn_at=None)


class Feedback(models.Model):
    """One thing said of one turn. Changing it replaces the row; the old one is kept, withdrawn."""

    class Kind(models.TextChoices):
        THUMB = "thumb"  # value 1 or -1
        REWRITE = "rewrite"  # "it should have said …"
        GUIDANCE = "guidance"  # "next time, do …": the hint, word for word

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="feedback")
    kind = models.CharField(max_length=8, choices=Kind)
    value = models.SmallIntegerField(default=0)
    text = models.TextField(blank=True)
    late = models.BooleanField(default=False)
    """It arrived after the turn's sample had been claimed."""
    created_at = models.DateTimeField(default=timezone.now)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = FeedbackQuerySet.as_manager()

    class Meta:
        ordering = ("created_at", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=("turn", "by", "kind"), condition=models.Q(withdrawn_at=None), name="one_standing_feedback_a_kind"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} on {self.turn_id}"
