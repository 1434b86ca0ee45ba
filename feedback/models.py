"""What somebody, or a test, said about a turn."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.utils import timezone

from chat import turns
from chat.models import Turn


class FeedbackQuerySet(models.QuerySet["Feedback"]):
    def standing(self) -> FeedbackQuerySet:
        """What was not withdrawn or replaced."""
        return self.filter(withdrawn_at=None)

    @transaction.atomic
    def give(self, turn: Turn, *, by: User, kind: str, value: int = 0, text: str = "") -> Feedback:
        """Say one thing of a turn, in place of what this person said of that kind before. Saying it again is nothing.

        The verdict is due, or due again. Whether it comes too late for the sample is the judge's to see: this room
        knows nothing of samples, and only the judge looks at turn and sample at one moment. It then sets `late`.
        Raises TurnUnfinished before the reply is whole.
        """
        turn = Turn.objects.select_for_update().get(pk=turn.pk)
        before = self.standing().filter(turn=turn, by=by, kind=kind).first()
        if before is not None and (before.value, before.text) == (value, text):
            return before
        self.standing().filter(turn=turn, by=by, kind=kind).update(withdrawn_at=timezone.now())
        given = self.create(turn=turn, by=by, kind=kind, value=value, text=text)
        turns.reopen(turn)
        return given

    @transaction.atomic
    def withdraw(self, turn: Turn, *, by: User, kind: str) -> bool:
        """Take back what this person said of that kind. False when nothing stood."""
        Turn.objects.select_for_update().get(pk=turn.pk)
        if not self.standing().filter(turn=turn, by=by, kind=kind).update(withdrawn_at=timezone.now()):
            return False
        turns.reopen(turn)
        return True


class Feedback(models.Model):
    """One thing said of one turn. Changing it replaces the row; the old one is kept, withdrawn."""

    class Kind(models.TextChoices):
        THUMB = "thumb"  # value 1 or -1
        REWRITE = "rewrite"  # "it should have said …"
        GUIDANCE = "guidance"  # "next time, do …": the hint, word for word
        VERDICT = "verdict"  # a test's: value 1 passed, -1 failed; its text is the test's output

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="feedback")
    kind = models.CharField(max_length=8, choices=Kind)
    value = models.SmallIntegerField(default=0)
    text = models.TextField(blank=True)
    tags = models.JSONField(default=list, blank=True)
    """Why, in single words: wrong, too long, tone …"""
    late = models.BooleanField(default=False)
    """It arrived after the turn's sample had been claimed."""
    created_at = models.DateTimeField(default=timezone.now)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = FeedbackQuerySet.as_manager()

    class Meta:
        ordering = ("created_at", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=("turn", "by", "kind"),
                condition=models.Q(withdrawn_at=None),
                name="one_standing_feedback_a_kind",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} on {self.turn_id}"
