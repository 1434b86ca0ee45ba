"""Tokens in, checkpoints out: the rows of learning."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

from core.prepared import Prepared
from core.states import Stateful


class Checkpoint(Stateful):
    """Weights that may answer people. Exactly one is live; number 0 is the base model."""

    class Status(models.TextChoices):
        CANDIDATE = "candidate"  # the learner saved it
        PASSED = "passed"  # the gate let it through
        APPROVED = "approved"  # a person said yes
        LIVE = "live"  # it answers
        RETIRED = "retired"  # it answered once, and can again
        REJECTED = "rejected"

    class Kind(models.TextChoices):
        BASE = "base"
        LORA = "lora"
        FULL = "full"

    MOVES: ClassVar = {
        Status.CANDIDATE: {Status.PASSED, Status.REJECTED},
        Status.PASSED: {Status.APPROVED, Status.REJECTED},
        Status.APPROVED: {Status.LIVE, Status.REJECTED},
        Status.LIVE: {Status.RETIRED},
        Status.RETIRED: {Status.LIVE},
        Status.REJECTED: set(),
    }

    number = models.PositiveIntegerField(unique=True)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.LORA)
    status = models.CharField(max_length=12, choices=Status, default=Status.CANDIDATE, db_index=True)
    parent = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="children")
    run = models.OneToOneField("Run", models.PROTECT, null=True, blank=True, related_name="checkpoint")
    adapter = models.CharField(max_length=80, blank=True)
    """The name the engine knows these weights by; empty for the base. A name is never used twice."""
    path = models.CharField(max_length=300, blank=True)
    """Folder of the weights, relative to DATA_DIR; immutable once written. Empty for the base."""
    probe = models.JSONField(default=dict, blank=True)
    """{"prompt_ids", "response_ids", "logprobs"}: what the learner gives the fixed probe, at T = 1."""
    reason = models.TextField(blank=True)
    """Why it was rejected or held, in a sentence."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-number",)
        constraints = (
            models.UniqueConstraint(fields=("status",), condition=models.Q(status="live"), name="one_live_checkpoint"),
        )

    def __str__(self) -> str:
        return f"{settings.MODEL_NAME}@{self.number}"

    @property
    def name(self) -> str:
        return str(self)

    @property
    def folder(self) -> Path | None:
        return Path(settings.DATA_DIR) / self.path if self.path else None

    @classmethod
    def live(cls) -> Checkpoint:
        """The checkpoint that answers now."""
        live = LIVE.first()
        if live is None:
            raise cls.DoesNotExist("There is no live checkpoint: run manage.py migrate.")
        return live

    @transaction.atomic
    def go_live(self) -> None:
        """Answer from now on; the same call rolls back to a retired checkpoint. One live row at any moment."""
        for live in Checkpoint.objects.select_for_update().filter(status=self.Status.LIVE):
            if live.pk == self.pk:
                return
            live.move(self.Status.RETIRED)
        self.move(self.Status.LIVE)


LIVE: Prepared[Checkpoint] = Prepared(lambda: Checkpoint.objects.filter(status=Checkpoint.Status.LIVE))


class Decision(models.Model):
    """The audit log of checkpoints: who said what, when, and why."""

    class Verb(models.TextChoices):
        APPROVE = "approve"
        REJECT = "reject"
        PROMOTE = "promote"
        ROLL_BACK = "roll back"

    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="decisions")
    verb = models.CharField(max_length=12, choices=Verb)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    reason = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.verb} {self.checkpoint}"


class Run(Stateful):
    """One job of optimiser steps, from a batch of samples to a candidate."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"

    MOVES: ClassVar = {
        Status.QUEUED: {Status.RUNNING, Status.FAILED},
        Status.RUNNING: {Status.FINISHED, Status.FAILED, Status.QUEUED},
        Status.FINISHED: set(),
        Status.FAILED: set(),
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED, db_index=True)
    recipe = models.JSONField()
    """The whole Recipe, so that a checkpoint can say how it was made."""
    parent = models.ForeignKey(Checkpoint, models.PROTECT, null=True, related_name="runs_from")
    seed = models.PositiveBigIntegerField(default=0)
    progress = models.JSONField(default=dict, blank=True)
    """{"phase": str, "done": int, "total": int, "eta_s": float}"""
    metrics = models.JSONField(default=list, blank=True)
    """One dict an optimiser update."""
    error = models.TextField(blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    cancel_asked = models.BooleanField(default=False)
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"run {self.pk}"


class Sample(Stateful):
    """One turn made ready to learn from. Ids are tokens, log-probs natural; lists agree in length with response_ids."""

    class Status(models.TextChoices):
        READY = "ready"
        CLAIMED = "claimed"
        TRAINED = "trained"
        STALE = "stale"  # never trained; drop_reason says why

    MOVES: ClassVar = {
        Status.READY: {Status.CLAIMED, Status.STALE},
        Status.CLAIMED: {Status.TRAINED, Status.READY},
        Status.TRAINED: set(),
        Status.STALE: set(),
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.READY, db_index=True)
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="samples")
    """The weights that served it."""
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="samples")
    prompt_ids = models.JSONField()
    response_ids = models.JSONField()
    mask = models.JSONField(default=list, blank=True)
    """1 learns, 0 does not; empty means all ones."""
    old_logprobs = models.JSONField()
    """At T = 1, under `checkpoint`."""
    sampled_logprobs = models.JSONField(default=list, blank=True)
    """At the sampling temperature, as the engine reported them: the behaviour policy's."""
    temperature = models.FloatField(default=1.0)
    teacher_prompt_ids = models.JSONField(null=True, blank=True)
    """The hinted prompt; null: no teacher."""
    reward = models.FloatField(default=0.0)
    drop_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"sample {self.pk}"

    @property
    def has_teacher(self) -> bool:
        return self.teacher_prompt_ids is not None
