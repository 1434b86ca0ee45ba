"""Tokens in, checkpoints out: the rows of learning."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from checkpoints.models import SHARED, Checkpoint, Line
from core.states import Stateful
from episodes.models import Episode


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
    line = models.ForeignKey(Line, models.PROTECT, default=SHARED, related_name="runs")
    """Whose samples it learns from, and whose checkpoint it makes."""
    recipe = models.JSONField()
    """The whole Recipe, so that a checkpoint can say how it was made."""
    parent = models.ForeignKey(Checkpoint, models.PROTECT, null=True, related_name="runs_from")
    checkpoint = models.OneToOneField(Checkpoint, models.PROTECT, null=True, blank=True, related_name="run")
    """The candidate that it made; null until it is finished."""
    seed = models.PositiveBigIntegerField(default=0)
    progress = models.JSONField(default=dict, blank=True)
    """{"phase": str, "done": int, "total": int, "share": float, "eta_s": float}: done of total in this phase, and the
    share of the whole run, which only grows; what is left, in seconds, only falls."""
    metrics = models.JSONField(default=list, blank=True)
    """One dict an optimiser update."""
    usage = models.JSONField(default=list, blank=True)
    """What it took of the machine over time, as `training/monitoring/usage.py` says; a bounded number of rows."""
    agents = models.JSONField(default=dict, blank=True)
    """What it says of the agents' groups that it learned from; empty where there were none."""
    code_version = models.CharField(max_length=80, blank=True)
    """Version of Talkback, and commit where there is one, that took its steps."""
    again = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="repeated_by")
    """The run whose remaining samples this one learns from once more, for a clean line."""
    cleaning = models.ForeignKey("checkpoints.Cleaning", models.PROTECT, null=True, blank=True, related_name="runs")
    """What it is a step of."""
    learned = models.JSONField(default=list, blank=True)
    """Of a repeated run: numbers of the samples that it learned from. They stay those of the run that it repeats."""
    error = models.TextField(blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    asked = models.BooleanField(default=False)
    """A person asked for it, and it did not wait until a batch was full."""
    cancel_asked = models.BooleanField(default=False)
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return _("run %(n)s") % {"n": self.pk}

    @staticmethod
    def that_made(checkpoint: Checkpoint) -> Run | None:
        """Find the run that made these weights; None of the base, and of what another installation made."""
        return getattr(checkpoint, "run", None)


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
    line = models.ForeignKey(Line, models.PROTECT, default=SHARED, related_name="samples")
    """Which line learns from it."""
    origin = models.UUIDField(null=True, blank=True, db_index=True)
    """What it was made of, as its maker counts: of one origin at most one sample waits in a line."""
    person = models.CharField(max_length=64, blank=True, default="")
    conversation = models.UUIDField(null=True, blank=True)
    """Whose it is, and of which conversation, as its maker counts: demonstrations are a person's own, out of
    other conversations."""
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="samples")
    """The weights that served it."""
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="samples")
    passed_by = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="passed_over")
    """The run that took newer ones, or what people wrote, instead."""
    prompt_ids = models.JSONField()
    response_ids = models.JSONField()
    mask = models.JSONField(default=list, blank=True)
    """1 learns, 0 does not; empty means all ones."""
    behaviour_logprobs = models.JSONField(db_column="old_logprobs")
    """At T = 1, under `checkpoint`, which served the turn."""
    sampled_logprobs = models.JSONField(default=list, blank=True)
    """At the sampling temperature, as the engine reported them: the behaviour policy's."""
    temperature = models.FloatField(default=1.0)
    teacher_prompt_ids = models.JSONField(null=True, blank=True)
    """The hinted prompt; null: no teacher."""
    voted_hint = models.BooleanField(default=False)
    """Its hint is of votes alone: no person worded it, or decided on it."""
    voted = models.BooleanField(default=False)
    """All of it is of judges' votes: no person, test or rule said anything of the reply."""
    reward = models.FloatField(default=0.0)
    rewards = models.JSONField(default=list, blank=True)
    """-1, 0 or 1 a response id, where a person marked words of the reply; empty: `reward` holds for all of it."""
    episode = models.ForeignKey(Episode, models.SET_NULL, null=True, blank=True, related_name="samples")
    """The attempt that it is a step of. Then `reward` is the step's score, from -1 to 1, and a run learns from the
    group's steps together (training/objective/step_advantages.py)."""
    step = models.PositiveSmallIntegerField(null=True, blank=True)
    """Which step of it, from 0."""
    advantage = models.FloatField(null=True, blank=True)
    """How much better than its peers this step was, as the run that learned it found; null: none did, or not from
    this step."""
    left_out = models.CharField(max_length=80, blank=True)
    """Why the run that had it did not learn from this step."""
    rewrite_ids = models.JSONField(null=True, blank=True)
    """The reply that a person wrote in place of this one, its end included: supervised, by the recipe's w_sft."""
    redactions = models.JSONField(default=list, blank=True)
    """[{"where", "kind", "count"}]: what of secrets and personal data was taken out before this row was written."""
    drop_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(
                fields=("origin", "line"), condition=Q(status__in=("ready", "claimed")), name="one_waits_a_line"
            ),
        )
        indexes = (
            # Counted on every overview: a sample's row holds its tokens.
            models.Index(fields=("status", "moved_at"), name="samples_by_state"),
            models.Index(fields=("run", "status", "origin"), name="samples_of_runs"),
            models.Index(fields=("line", "status"), name="samples_of_lines"),
        )

    def __str__(self) -> str:
        return _("sample %(n)s") % {"n": self.pk}

    @property
    def has_teacher(self) -> bool:
        return self.teacher_prompt_ids is not None


class Rehearsal(models.Model):
    """An ordinary prompt and what the base answers it: a share of each batch, so that a style does not cost skill."""

    model = models.CharField(max_length=200, db_index=True)
    """Which base answered."""
    prompt_ids = models.JSONField()
    response_ids = models.JSONField()
    logprobs = models.JSONField()
    """At T = 1, by the engine."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)

    def __str__(self) -> str:
        return f"rehearsal {self.pk}"


class Pause(models.Model):
    """A person said: no learning for now. Runs wait in their queue, and chat goes on."""

    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    reason = models.CharField(max_length=200, blank=True)
    since = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(null=True, blank=True)
    """Null: until a person ends it."""
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-since",)

    def __str__(self) -> str:
        return f"pause since {self.since:%Y-%m-%d %H:%M}"


class RunNote(models.Model):
    """What a person wrote of a run: what was tried, and what came of it."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="note")
    text = models.TextField(max_length=2000)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Who wrote it last."""
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"note on {self.run_id}"


class RunTag(models.Model):
    """A word by which runs are found again."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="tags")
    name = models.CharField(max_length=40, db_index=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("run", "name"), name="a_run_has_a_tag_once"),)

    def __str__(self) -> str:
        return self.name
