"""Exams of candidates, and the corrected questions that were asked again."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.utils import timezone

from chat.models import Turn
from checkpoints.models import Checkpoint


class Examination(models.Model):
    """The gate's exam of one candidate against the live checkpoint of that moment."""

    checkpoint = models.OneToOneField(Checkpoint, models.CASCADE, related_name="examination")
    against = models.ForeignKey(Checkpoint, models.PROTECT, related_name="+")
    progress = models.JSONField(default=dict, blank=True)
    pairs = models.JSONField(default=list, blank=True)
    """[{"prompt", "live", "candidate", …numbers}]: the same held-out prompts, side by side."""
    checks = models.JSONField(default=list, blank=True)
    """[{"name", "passed", "value", "limit", "sentence"}]"""
    pack = models.JSONField(default=list, blank=True)
    """The general regression pack, item by item, as both answered it: judge/gate's `pack` says of what form."""
    personal = models.JSONField(default=list, blank=True)
    """The held-out turns of people's own, as both did on them."""
    meter = models.JSONField(default=dict, blank=True)
    """The overfitting meter's figures by name, of both."""
    agents = models.JSONField(default=list, blank=True)
    """Held-out tasks that agents played with both, a dict a world: gate.agent_pairs.Played says of what form."""
    passed = models.BooleanField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "judge_examination"

    def __str__(self) -> str:
        return f"examination of {self.checkpoint}"

    @property
    def seconds(self) -> dict[str, float]:
        """What each part of it took, the longest first; empty for exams of earlier versions."""
        return dict(sorted(self.progress.get("seconds", {}).items(), key=lambda part: -part[1]))

    @property
    def took_s(self) -> float:
        return sum(self.seconds.values())


class AskedAgainQuerySet(models.QuerySet["AskedAgain"]):
    def visible_to(self, user: User | AnonymousUser) -> AskedAgainQuerySet:
        """The only door to them: a person's own, and all of them for reviewers; never one off the record."""
        if not user.is_authenticated:
            return self.none()
        on_record = self.filter(turn__learns=True, turn__session__learns=True)
        return on_record if user.is_staff else on_record.filter(turn__session__user=user)


class AskedAgain(models.Model):
    """A question whose reply a person corrected, asked again of what answers and of a candidate that learned from it.

    It goes with its turn: both replies are about that person's own words.
    """

    examination = models.ForeignKey(Examination, models.CASCADE, related_name="asked_again")
    turn = models.ForeignKey(Turn, models.CASCADE, related_name="asked_again")
    live = models.TextField(blank=True)
    candidate = models.TextField(blank=True)
    cut = models.JSONField(default=list, blank=True)
    """Which of the two came to the length limit: live, candidate."""
    at = models.DateTimeField(default=timezone.now)

    objects = AskedAgainQuerySet.as_manager()

    class Meta:
        db_table = "judge_askedagain"
        ordering = ("-turn__created_at", "-pk")
        constraints = (models.UniqueConstraint(fields=("examination", "turn"), name="asked_again_once"),)

    def __str__(self) -> str:
        return f"{self.turn_id} asked again in {self.examination_id}"
