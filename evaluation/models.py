"""Comparisons: blind choices of people, and the frozen control's answers."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from checkpoints.models import SHARED, Checkpoint, Line
from core.states import Stateful
from training.models import Sample


class Shadow(models.Model):
    """What a frozen checkpoint would have replied where another answered: the control that nothing teaches. It is not
    shown in the chat."""

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="shadows")
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="shadows")
    text = models.TextField(blank=True)
    response_ids = models.JSONField(default=list, blank=True)
    finish_reason = models.CharField(max_length=16, blank=True)
    figures = models.JSONField(default=dict, blank=True)
    """What is measured of it, and of the reply that was given, by name."""
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "judge_shadow"
        ordering = ("-at", "-pk")
        constraints = (models.UniqueConstraint(fields=("turn", "checkpoint"), name="one_shadow_a_checkpoint"),)

    def __str__(self) -> str:
        return f"{self.checkpoint} beside {self.turn_id}"


class BlindChoice(models.Model):
    """Which of two answers to their own question a person would rather have had, the reply or its shadow, while they
    were not told which was which. Goes with its shadow, and so with its turn."""

    class Picked(models.TextChoices):
        REPLY = "reply"
        SHADOW = "shadow"
        SKIPPED = "skipped"  # they could not say, or did not want to

    shadow = models.ForeignKey(Shadow, models.CASCADE, related_name="choices")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="blind_choices")
    picked = models.CharField(max_length=8, choices=Picked)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "judge_blindchoice"
        ordering = ("-at", "-pk")
        constraints = (models.UniqueConstraint(fields=("shadow", "by"), name="one_blind_choice_a_person"),)

    def __str__(self) -> str:
        return f"{self.picked} of {self.shadow_id}"


class Comparison(Stateful):
    """Two checkpoints on the same prompts, for people to choose between without knowing which is which."""

    class Status(models.TextChoices):
        QUEUED = gettext_noop("queued")
        ANSWERED = gettext_noop("answered")
        FAILED = gettext_noop("failed")

    MOVES: ClassVar = {
        Status.QUEUED: {Status.ANSWERED, Status.FAILED},
        Status.ANSWERED: set(),
        Status.FAILED: {Status.QUEUED},
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED, db_index=True)
    first = models.ForeignKey(Checkpoint, models.PROTECT, related_name="compared_first")
    second = models.ForeignKey(Checkpoint, models.PROTECT, related_name="compared_second")
    prompts = models.JSONField(default=list)
    """[str]"""
    replies = models.JSONField(default=list, blank=True)
    """[{"prompt", "first", "second", "is_swapped"}]: swapped ones show the second on the left."""
    distances = models.JSONField(default=list, blank=True)
    """How far the weights are apart, by layer, as `gpu_workers.learner.distances` measures it."""
    revealed_to = models.JSONField(default=list, blank=True)
    """Numbers of the people who know which is which, and choose no more."""
    error = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "judge_comparison"
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"{self.first} or {self.second}"


class Choice(models.Model):
    """One person's pick between two replies."""

    class Picked(models.TextChoices):
        FIRST = "first"
        SECOND = "second"
        SAME = "same"

    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="choices")
    place = models.PositiveSmallIntegerField()
    """Which of its replies."""
    picked = models.CharField(max_length=8, choices=Picked)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "judge_choice"
        ordering = ("pk",)
        constraints = (models.UniqueConstraint(fields=("comparison", "place", "by"), name="one_pick_a_person"),)

    def __str__(self) -> str:
        return f"{self.picked} of {self.comparison_id}:{self.place}"


class Export(Stateful):
    """Files that are made for download: a dataset, or a checkpoint's weights for other tools. They are deleted after a
    while; the row stays and says what went out."""

    class Status(models.TextChoices):
        QUEUED = gettext_noop("queued")
        WRITING = gettext_noop("writing")
        READY = gettext_noop("ready")
        FAILED = gettext_noop("failed")
        CANCELLED = gettext_noop("cancelled")
        GONE = gettext_noop("gone")  # its files were deleted

    class What(models.TextChoices):
        DATASET = "dataset"
        MERGED = "merged"  # a whole model, for transformers
        GGUF = "gguf"  # a whole model, for llama.cpp and its kin

    MOVES: ClassVar = {
        Status.QUEUED: {Status.WRITING, Status.CANCELLED},
        Status.WRITING: {Status.READY, Status.FAILED, Status.CANCELLED, Status.QUEUED},
        Status.READY: {Status.GONE},
        Status.FAILED: set(),
        Status.CANCELLED: set(),
        Status.GONE: set(),
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED, db_index=True)
    what = models.CharField(max_length=8, choices=What)
    asked = models.JSONField(default=dict, blank=True)
    """Of a dataset its filters (evaluation.datasets.filters.Filters)."""
    checkpoint = models.ForeignKey(Checkpoint, models.CASCADE, null=True, blank=True, related_name="exports")
    """Whose weights; null for a dataset."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    progress = models.JSONField(default=dict, blank=True)
    """{"done", "total"}: rows, or steps of the work."""
    made = models.JSONField(default=dict, blank=True)
    """{"rows", "left_out": {why: count}, "sources": {source: count}, "files": [{"name", "bytes", "sha256"}]}"""
    error = models.TextField(blank=True)
    """Why there are no files, or none any more, as a person reads it."""
    cancel_asked = models.BooleanField(default=False)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    """When its files are deleted."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"export {self.pk}"

    @property
    def folder(self) -> Path:
        """Where its files are once it is ready."""
        return Path(settings.DATA_DIR) / "exports" / str(self.pk)


class Import(Stateful):
    """A file of examples that an operator brings: read first, then taken in as lessons by a person's yes."""

    class Status(models.TextChoices):
        READING = gettext_noop("reading")
        READ = gettext_noop("read")  # a person looks at what it holds
        TAKING = gettext_noop("taking")
        TAKEN = gettext_noop("taken")
        UNDONE = gettext_noop("undone")
        DISCARDED = gettext_noop("discarded")
        FAILED = gettext_noop("failed")

    MOVES: ClassVar = {
        Status.READING: {Status.READ, Status.FAILED, Status.DISCARDED},
        Status.READ: {Status.TAKING, Status.DISCARDED},
        Status.TAKING: {Status.TAKEN, Status.FAILED},
        Status.TAKEN: {Status.UNDONE},
        Status.UNDONE: set(),
        Status.DISCARDED: set(),
        Status.FAILED: set(),
    }

    status = models.CharField(max_length=12, choices=Status, default=Status.READING, db_index=True)
    name = models.CharField(max_length=200)
    """What the file was called."""
    sha256 = models.CharField(max_length=64)
    line = models.ForeignKey(Line, models.PROTECT, default=SHARED, related_name="imports")
    """Which line learns from it."""
    found = models.JSONField(default=dict, blank=True)
    """{"rows", "refused": {why: count}, "where": [[place, why]], "first": [{"prompt", "completion", "rejected"}]}: what
    it holds."""
    taken = models.JSONField(default=dict, blank=True)
    """{"lessons", "known", "refused": {why: count}, "where": [[place, why]]}; once undone "removed" and "learned"."""
    origin = models.CharField(max_length=200, blank=True)
    """Where the examples come from, in the operator's words."""
    licence = models.CharField(max_length=200, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    consented_at = models.DateTimeField(null=True, blank=True)
    """When that person said that these texts may be learned from."""
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-pk",)

    def __str__(self) -> str:
        return f"import {self.pk}"


class Imported(models.Model):
    """One example of an import, by its digest: of one example a line has one lesson, however often it is brought."""

    source = models.ForeignKey(Import, models.CASCADE, related_name="examples")
    line = models.ForeignKey(Line, models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    sample = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="imported")

    class Meta:
        ordering = ("pk",)
        constraints = (models.UniqueConstraint(fields=("line", "digest"), name="one_example_a_line"),)

    def __str__(self) -> str:
        return f"{self.digest[:12]} of {self.source_id}"
