"""Verdicts: on a turn, and on a candidate."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from chat.models import Turn
from training.models import Checkpoint, Sample


class Judgement(models.Model):
    """What the evidence of one turn came to, and why. One a turn; re-opened verdicts are written over."""

    turn = models.OneToOneField(Turn, models.CASCADE, related_name="judgement")
    reward = models.SmallIntegerField(null=True, blank=True)
    """-1, 0 or 1; null: nobody could say."""
    reward_from = models.CharField(max_length=12, blank=True)
    """thumb | test | votes"""
    confidence = models.FloatField(null=True, blank=True)
    """Share of the valid votes that agree with the reward."""
    hint = models.TextField(blank=True)
    hint_from = models.CharField(max_length=12, blank=True)
    """guidance | rewrite | votes"""
    teacher = models.JSONField(default=dict, blank=True)
    """{"tokens", "logprobs", "old_logprobs"} at T = 1: what the hint would raise or lower."""
    sample = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="judgement")
    reason = models.CharField(max_length=200, blank=True)
    """Why there is no sample, or what of the evidence was not used."""
    learned = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="first_judgement")
    """The sample of an earlier verdict, learned before late feedback re-opened it; that happens once."""
    evidence = models.TextField(blank=True)
    """As the judge read it."""
    judged_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"judgement of {self.turn_id}"


class Vote(models.Model):
    """One judge's reading, failed ones too, raw text kept."""

    class Question(models.TextChoices):
        SCORE = "score"
        HINT = "hint"

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="votes")
    question = models.CharField(max_length=5, choices=Question)
    index = models.PositiveSmallIntegerField()
    judge = models.CharField(max_length=120)
    prompt_version = models.CharField(max_length=40)
    evidence = models.CharField(max_length=16, blank=True)
    """Digest of what the judge read; a vote on other evidence is kept and does not count."""
    raw = models.TextField(blank=True)
    score = models.SmallIntegerField(null=True, blank=True)
    hint = models.TextField(blank=True)
    failure = models.CharField(max_length=200, blank=True)
    """Why there is no score: unreadable, too late, unreachable."""
    seconds = models.FloatField(default=0)
    tokens = models.PositiveIntegerField(default=0)
    cast_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("question", "index", "pk")

    def __str__(self) -> str:
        return f"{self.question} vote {self.index} on {self.turn_id}"


class Sitting(models.Model):
    """Somebody is at work on this matter until then, so that a task that was sent twice does the work once.

    A worker that dies leaves its seat; it is free again when its time has run out.
    """

    matter = models.CharField(max_length=80, unique=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return self.matter


class Examination(models.Model):
    """The gate's exam of one candidate against the live checkpoint of that moment."""

    checkpoint = models.OneToOneField(Checkpoint, models.CASCADE, related_name="examination")
    against = models.ForeignKey(Checkpoint, models.PROTECT, related_name="+")
    progress = models.JSONField(default=dict, blank=True)
    pairs = models.JSONField(default=list, blank=True)
    """[{"prompt", "live", "candidate", …numbers}]: the same held-out prompts, side by side."""
    checks = models.JSONField(default=list, blank=True)
    """[{"name", "passed", "value", "limit", "sentence"}]"""
    passed = models.BooleanField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"examination of {self.checkpoint}"
