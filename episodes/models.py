"""Store what agents play: groups of attempts at one task, the attempts, and what was done in each."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from core.states import Stateful

FEWEST = 2
"""Attempts that count, without which there is nothing to compare one with."""

QUIET_LEASES = 3
"""After so many leases in which no further attempt was opened, a group is taken for what was opened of it."""


@dataclass(frozen=True)
class Standing:
    """How far a group has come: `playing`, `complete`, or `short`, which does not teach; the reason in words."""

    state: str
    reason: str = ""
    opened: int = 0
    counted: int = 0
    """Attempts that ended and say something of the agent."""
    is_final: bool = False
    """No further attempt is to be expected."""

    @property
    def stays_short(self) -> bool:
        """So few of its attempts count, now and for good, that nothing of it teaches."""
        return self.is_final and self.state == "short"


class GroupQuerySet(models.QuerySet["Group"]):
    def visible_to(self, user: User | AnonymousUser) -> GroupQuerySet:
        """The only door to groups: a person's own."""
        return self.filter(user=user) if user.is_authenticated else self.none()


class Group(models.Model):
    """One task, tried several times by the same weights."""

    class Split(models.TextChoices):
        TRAIN = "train"
        HELDOUT = "heldout"  # examines, and never teaches

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="groups_played")
    name = models.CharField(max_length=200)
    """What its player calls it."""
    world = models.CharField(max_length=200)
    task = models.CharField(max_length=200)
    split = models.CharField(max_length=8, choices=Split)
    attempts = models.PositiveIntegerField(null=True, blank=True)
    """How many its player means to play; null: it did not say, and those that were opened are all."""
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="groups_played")
    """Who plays: each attempt's key is pinned to it."""
    judged_at = models.DateTimeField(null=True, blank=True, db_index=True)
    """When it was complete and every step of it had its score, so that it can be learned from; null until then."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = GroupQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        constraints = (models.UniqueConstraint(fields=("user", "name"), name="one_group_a_name"),)
        indexes = (models.Index(fields=("user", "world", "task"), name="groups_by_task"),)

    def __str__(self) -> str:
        return f"group {self.name} at {self.world}/{self.task}"

    def standing(self) -> Standing:
        """How far it has come. One query."""
        return self.standing_of(list(self.episodes.only("group", "status", "ending", "cut_by", "ended_at", "lease_s")))

    def standing_of(self, ends: Sequence[Episode]) -> Standing:
        """The same, given all its attempts. No query."""
        counted = sum(counts(one.ending, one.cut_by) for one in ends)
        is_playing = any(one.status == Episode.Status.PLAYING for one in ends)
        is_left = not is_playing and is_quiet([(one.ended_at, one.lease_s) for one in ends], timezone.now())
        if is_playing or (len(ends) < (self.attempts or 0) and not is_left):
            return Standing("playing", opened=len(ends), counted=counted)
        is_final = is_left or (self.attempts is not None and len(ends) >= self.attempts)
        if counted < FEWEST:
            return Standing("short", why_short(len(ends), counted), len(ends), counted, is_final)
        return Standing("complete", opened=len(ends), counted=counted, is_final=is_final)


def is_quiet(ends: Sequence[tuple[datetime | None, int]], now: datetime) -> bool:
    """Whether no player is left that would open more attempts: the last of them, each (when it ended, its lease in
    seconds), ended longer ago than QUIET_LEASES of the longest lease.

    >>> at = datetime(2026, 11, 29)
    >>> [is_quiet([(at, 60), (None, 10)], at + timedelta(seconds=s)) for s in (180, 181)]
    [False, True]
    """
    ended = [at for at, _ in ends if at is not None]
    return bool(ended) and now - max(ended) > timedelta(seconds=QUIET_LEASES * max(lease for _, lease in ends))


def why_short(opened: int, counted: int) -> str:
    """Why a group of so many attempts, of which so many count, does not teach."""
    said = _(
        "Of %(opened)s attempts %(counted)s count, and fewer than %(fewest)s cannot be compared: nothing of it teaches."
    )
    return said % {"opened": opened, "counted": counted, "fewest": FEWEST}


def counts(ending: str, cut_by: str) -> bool:
    """Whether an attempt that ended so says something of the agent: the world's failures do not, nor does a window
    that was full.

    >>> counts("failed", ""), counts("infra_error", ""), counts("truncated", "context"), counts("", "")
    (True, False, False, False)
    """
    if ending == Episode.Ending.TRUNCATED:
        return cut_by != Episode.Cut.CONTEXT
    return ending in (Episode.Ending.SOLVED, Episode.Ending.FAILED, Episode.Ending.GAVE_UP)


class EpisodeQuerySet(models.QuerySet["Episode"]):
    def visible_to(self, user: User | AnonymousUser) -> EpisodeQuerySet:
        """The only door to episodes: those of a person's own groups."""
        return self.filter(group__user=user) if user.is_authenticated else self.none()


class Episode(Stateful):
    """One attempt: a session that has an outcome."""

    class Status(models.TextChoices):
        PLAYING = "playing"
        SCORED = "scored"  # it ended, and its outcome is known
        LEARNED = "learned"
        VOID = "void"  # the world failed, or it was called off: never learned from

    MOVES: ClassVar = {
        Status.PLAYING: {Status.SCORED, Status.VOID},
        Status.SCORED: {Status.LEARNED},
        Status.LEARNED: set(),
        Status.VOID: set(),
    }

    class Ending(models.TextChoices):
        SOLVED = "solved"
        FAILED = "failed"
        TRUNCATED = "truncated"
        GAVE_UP = "gave_up"
        INFRA_ERROR = "infra_error"
        CANCELLED = "cancelled"

    class Cut(models.TextChoices):
        HORIZON = "horizon"
        CONTEXT = "context"

    UNSCORED: ClassVar = (Ending.INFRA_ERROR, Ending.CANCELLED)
    """These have no outcome: a missing one is never read as 0 or -1."""
    SETTLED: ClassVar = (Ending.SOLVED, Ending.FAILED, Ending.GAVE_UP)
    """These have one. What was truncated may have."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    group = models.ForeignKey(Group, models.CASCADE, related_name="episodes")
    attempt = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=Status, default=Status.PLAYING, db_index=True)
    session = models.OneToOneField(Session, models.SET_NULL, null=True, blank=True, related_name="episode")
    """All that was said in it; null once that was deleted."""
    key = models.OneToOneField(ApiKey, models.SET_NULL, null=True, blank=True, related_name="episode")
    """Good for this episode alone, and until it ends."""
    ending = models.CharField(max_length=12, choices=Ending, blank=True)
    cut_by = models.CharField(max_length=8, choices=Cut, blank=True)
    """What truncated it; empty where nothing did."""
    outcome = models.FloatField(null=True, blank=True)
    """-1 to 1, as its world says: no judge has a part in it."""
    checks = models.JSONField(default=dict, blank=True)
    """{name: true, false or a number}: what the outcome was made of."""
    cost = models.JSONField(default=dict, blank=True)
    """{name: number}: tokens, seconds, …, as the player counts them."""
    scores = models.JSONField(default=dict, blank=True)
    """{completion id: -1 to 1}: what the world itself, by rule, says of single steps."""
    reason = models.TextField(blank=True)
    """Why it is void, where Talkback said so."""
    lease_s = models.PositiveIntegerField()
    lease_until = models.DateTimeField(db_index=True)
    """Without a sign of life until then its player is taken for dead."""
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = EpisodeQuerySet.as_manager()

    class Meta:
        ordering = ("group", "attempt")
        indexes = (models.Index(fields=("created_at", "id"), name="episodes_by_time"),)
        constraints = (
            models.UniqueConstraint(fields=("group", "attempt"), name="one_episode_an_attempt"),
            models.CheckConstraint(
                condition=Q(outcome=None) | Q(outcome__gte=-1, outcome__lte=1), name="outcome_from_minus_one_to_one"
            ),
            models.CheckConstraint(
                condition=~Q(ending__in=("", "infra_error", "cancelled")) | Q(outcome=None),
                name="no_outcome_without_a_score",
            ),
            models.CheckConstraint(
                condition=~Q(ending__in=("solved", "failed", "gave_up")) | Q(outcome__isnull=False),
                name="an_outcome_with_a_score",
            ),
        )

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.group}"


COUNTED = Q(ending__in=Episode.SETTLED) | (Q(ending=Episode.Ending.TRUNCATED) & ~Q(cut_by=Episode.Cut.CONTEXT))
"""`counts`, asked of the database."""


class ExamQuerySet(models.QuerySet["Exam"]):
    def visible_to(self, user: User | AnonymousUser) -> ExamQuerySet:
        """The only door to exams: those that a person's own players play."""
        return self.filter(user=user) if user.is_authenticated else self.none()


class Exam(models.Model):
    """Held-out tasks of one world that the gate asks a person's players to play, with two checkpoints in turn."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="exams_played")
    world = models.CharField(max_length=200)
    candidate = models.ForeignKey(Checkpoint, models.CASCADE, related_name="exams_played")
    """Who is examined. In the groups of this exam it answers, though it is not live, and answers no other person."""
    live = models.ForeignKey(Checkpoint, models.CASCADE, related_name="+")
    """What it is held against."""
    tasks = models.PositiveIntegerField()
    attempts = models.PositiveIntegerField()
    """At each task, by each of the two."""
    seed = models.PositiveBigIntegerField()
    """Decides which tasks, and all that is drawn in them, for both."""
    created_at = models.DateTimeField(default=timezone.now)
    lapsed_at = models.DateTimeField(null=True, blank=True)
    """Since then the gate does not wait for it. What is played while the candidate waits for a yes still counts."""
    ended_at = models.DateTimeField(null=True, blank=True, db_index=True)
    """Since then nothing more is played."""
    reason = models.CharField(max_length=400, blank=True)
    """Why it ended before all was played."""

    objects = ExamQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        constraints = (models.UniqueConstraint(fields=("candidate", "live", "user", "world"), name="one_exam_a_world"),)

    def __str__(self) -> str:
        return f"exam {self.pk} of {self.candidate} in {self.world}"

    @property
    def prefix(self) -> str:
        """How the names of its groups begin."""
        return f"exam-{self.pk}/"

    @property
    def groups(self) -> models.QuerySet[Group]:
        """What was played for it. A name that a person gave before counts for nothing."""
        return Group.objects.filter(
            user=self.user_id,
            world=self.world,
            split=Group.Split.HELDOUT,
            name__startswith=self.prefix,
            checkpoint__in=(self.candidate_id, self.live_id),
            created_at__gte=self.created_at,
        )


class Action(models.Model):
    """One thing done in the world for a turn: it happens at most once."""

    episode = models.ForeignKey(Episode, models.CASCADE, related_name="actions")
    turn = models.ForeignKey(Turn, models.CASCADE, related_name="actions")
    call = models.CharField(max_length=200, blank=True)
    """The tool call's id; empty where the turn's words are the action."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("episode", "turn", "call"), name="one_action_an_operation"),)

    def __str__(self) -> str:
        return f"action {self.call or '(words)'} of {self.turn_id}"
