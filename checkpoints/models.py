"""The registry of weights: lines, checkpoints, what was decided of them, and what taints them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models, transaction
from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from checkpoints.cleaning_rows import Cleaning  # noqa: F401  # Django finds an app's tables through this module
from checkpoints.notice_rows import Notice  # noqa: F401  # the same
from core.errors import IllegalMove
from core.prepared import Prepared
from core.states import Stateful

SHARED = "shared"
"""The name of the line that everybody talks to who has none of their own."""


class Line(models.Model):
    """A line of checkpoints on the one base, with samples and a recipe of its own: one person's, a team's, or the
    shared one, which the migration makes."""

    name = models.SlugField(primary_key=True, max_length=40)
    """In addresses, and in every row that belongs to it; a name is never used twice."""
    title = models.CharField(max_length=80)
    recipe = models.JSONField(default=dict, blank=True)
    """As `training.config.read` takes it; empty: the installation's."""
    policy = models.JSONField(default=dict, blank=True)
    """What is decided without a person, as `checkpoints.line_policies.read` takes it; empty: nothing is."""
    start = models.ForeignKey("Checkpoint", models.PROTECT, null=True, blank=True, related_name="+")
    """Who answers while the line has no live checkpoint of its own, and what its first run goes on from. Null for the
    shared line alone, which begins with the base and always has one."""
    created_at = models.DateTimeField(default=timezone.now)
    retired_at = models.DateTimeField(null=True, blank=True)
    """Since then it has no members and learns nothing; its weights are kept."""

    class Meta:
        db_table = "training_line"
        ordering = ("created_at", "name")
        constraints = (
            models.CheckConstraint(
                condition=Q(name=SHARED, start=None, retired_at=None) | (~Q(name=SHARED) & Q(start__isnull=False)),
                name="private_lines_start_somewhere",
            ),
        )

    def __str__(self) -> str:
        return self.title

    @property
    def is_shared(self) -> bool:
        return self.name == SHARED

    @classmethod
    def of(cls, user: User | AnonymousUser) -> str:
        """The name of the line that answers this person and learns from them."""
        return Member.objects.filter(user=user.pk).values_list("line", flat=True).first() or SHARED

    @classmethod
    def row_of(cls, user: User | AnonymousUser) -> Line:
        """The row of that line. One query."""
        own = Q(members__user=user.pk)
        return cls.objects.filter(own | Q(name=SHARED)).order_by(Case(When(own, then=0), default=1))[0]


class Member(models.Model):
    """A person who talks to a private line. They are in one at most; without a row, in the shared one."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="membership")
    line = models.ForeignKey(Line, models.CASCADE, related_name="members")
    pools = models.BooleanField(default=False)
    """They said that what they give may also teach the shared line."""
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "training_member"
        ordering = ("pk",)
        constraints = (models.CheckConstraint(condition=~Q(line=SHARED), name="nobody_is_a_member_of_all"),)

    def __str__(self) -> str:
        return f"{self.user} in {self.line_id}"


class CheckpointQuerySet(models.QuerySet["Checkpoint"]):
    def visible_to(self, user: User | AnonymousUser) -> CheckpointQuerySet:
        """The only door to checkpoints that may be asked for by number: the shared line's, and those of a person's
        own line, with the one that it started from."""
        own = Member.objects.filter(user=user.pk)
        return self.filter(Q(line=SHARED) | Q(line__in=own.values("line")) | Q(pk__in=own.values("line__start")))

    def with_taints(self) -> CheckpointQuerySet:
        """Each knows how many samples of its learning were taken back, None where it has no taint: `taken_back`."""
        taint = Taint.objects.filter(checkpoint=OuterRef("pk")).order_by().values("samples")
        return self.annotate(taken_back=Subquery(taint[:1]))


class Checkpoint(Stateful):
    """Weights that may answer people. One at most is live in a line; number 0 is the base model."""

    class Status(models.TextChoices):
        CANDIDATE = gettext_noop("candidate")  # the learner saved it
        PASSED = gettext_noop("passed")  # the gate let it through
        APPROVED = gettext_noop("approved")  # a person said yes
        LIVE = gettext_noop("live")  # it answers
        RETIRED = gettext_noop("retired")  # it answered once, and can again
        REJECTED = gettext_noop("rejected")

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
    line = models.ForeignKey(Line, models.PROTECT, default=SHARED, related_name="checkpoints")
    """Whom it may answer. The base is in the shared line, and the beginning of every other."""
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.LORA)
    status = models.CharField(max_length=12, choices=Status, default=Status.CANDIDATE, db_index=True)
    parent = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="children")
    adapter = models.CharField(max_length=80, blank=True)
    """The name the engine knows these weights by; empty for the base. A name is never used twice."""
    path = models.CharField(max_length=300, blank=True)
    """Folder of the weights, relative to DATA_DIR; immutable once written. Empty for the base."""
    probe = models.JSONField(default=dict, blank=True)
    """{"prompt_ids", "response_ids", "logprobs"}: what the learner gives the fixed probe, at T = 1."""
    reason = models.TextField(blank=True)
    """Why it was rejected or put on hold, in a sentence."""
    is_on_hold = models.BooleanField(db_column="is_held", default=False)
    """A person said "not yet": nothing approves it by itself, and it waits for a person."""
    files = models.JSONField(default=dict, blank=True)
    """SHA-256 of each file of the weights, by its name: they are compared before the engine is given them."""
    made = models.JSONField(default=dict, blank=True)
    """What it was made of, in hashes, as of the moment it was made: the parts of its receipt that never change
    (training.provenance.receipts). Empty: it is older than receipts, or came from elsewhere."""
    pinned = models.CharField(max_length=200, blank=True)
    """Why its weights are kept whatever retention says; empty: it is not pinned."""
    let_go_at = models.DateTimeField(null=True, blank=True)
    """Since then its weights are not on this disk any more; the row, and what it was made of, stay."""
    came_from = models.JSONField(default=dict, blank=True)
    """Of weights that another installation made: its receipt. Empty: they were made here."""
    created_at = models.DateTimeField(default=timezone.now)

    trial: int | None = None
    """Of the one that `for_user` gives: the number of a trial whose checkpoint answers in some of the sessions."""

    objects = CheckpointQuerySet.as_manager()

    class Meta:
        db_table = "training_checkpoint"
        ordering = ("-number",)
        constraints = (models.UniqueConstraint(fields=("line",), condition=Q(status="live"), name="one_live_a_line"),)

    def __str__(self) -> str:
        return f"{settings.MODEL_NAME}@{self.number}"

    @property
    def name(self) -> str:
        return str(self)

    @property
    def folder(self) -> Path | None:
        return Path(settings.DATA_DIR) / self.path if self.path else None

    @classmethod
    def live(cls, line: str | None = SHARED) -> Checkpoint:
        """The checkpoint that answers in this line now, or in the shared one."""
        return cls._found(LIVE.first(line or SHARED))

    @classmethod
    def for_user(cls, user: User | AnonymousUser | int) -> Checkpoint:
        """The checkpoint that answers this person now, in one query: their own line's, else the shared one's."""
        return cls._found(MINE.first((user if isinstance(user, int) else user.pk) or 0))

    @staticmethod
    def _found(live: Checkpoint | None) -> Checkpoint:
        if live is None:
            raise Checkpoint.DoesNotExist("There is no live checkpoint: run manage.py migrate.")
        return live

    @transaction.atomic
    def go_live(self) -> None:
        """Answer its line from now on; the same call rolls back to a retired checkpoint. One live row at any moment."""
        for live in Checkpoint.objects.select_for_update().filter(status=self.Status.LIVE, line=self.line_id):
            if live.pk == self.pk:
                return
            live.move(self.Status.RETIRED)
        self.move(self.Status.LIVE)

    @transaction.atomic
    def decide(self, status: str, *, by: User | None, reason: str = "") -> None:
        """Move to APPROVED, and promotion follows by itself, or to REJECTED, and these weights never answer. Logs who
        said so. Of two people at once one wins; the other gets IllegalMove."""
        is_no = status == self.Status.REJECTED
        current = Checkpoint.objects.get(pk=self.pk)
        try:
            current.move(status, reason=reason if is_no else current.reason)
        except IllegalMove as error:
            current.refresh_from_db()
            if current.status == self.Status.CANDIDATE:
                said = _("%(checkpoint)s is candidate: only what passed the gate is approved.")
                raise IllegalMove(said % {"checkpoint": current}) from error
            last = current.decisions.select_related("by").first()
            said = _("%(checkpoint)s is already %(status)s: nothing was changed.")
            told = {"checkpoint": current, "status": _(current.status)}
            if last is not None and last.by is not None:
                said = _("%(checkpoint)s is already %(status)s (%(verb)s by %(who)s): nothing was changed.")
                told |= {"verb": _(last.verb), "who": last.by}
            raise IllegalMove(said % told) from error
        verb = Decision.Verb.REJECT if is_no else Decision.Verb.APPROVE
        Decision.objects.create(checkpoint=current, verb=verb, by=by, reason=reason)
        self.refresh_from_db()


def _live(**of: Any) -> QuerySet[Any, Any]:
    return Checkpoint.objects.filter(status=Checkpoint.Status.LIVE, **of).order_by().values("pk")[:1]


LIVE: Prepared[Checkpoint] = Prepared(
    lambda line: Checkpoint.objects.filter(
        pk=Coalesce(Subquery(_live(line=line)), Subquery(Line.objects.filter(name=line).order_by().values("start")[:1]))
    ).order_by()
)
"""By the line's name."""


def _running(user: Any) -> QuerySet[Any, Any]:
    own = Member.objects.filter(user=user).order_by().values("line")[:1]
    return Trial.objects.filter(ended_at=None, line=Coalesce(Subquery(own), Value(SHARED))).order_by().values("pk")[:1]


MINE: Prepared[Checkpoint] = Prepared(
    lambda user: (
        Checkpoint.objects.filter(
            pk=Coalesce(
                Subquery(_live(line__members__user=user)),
                Subquery(Member.objects.filter(user=user).order_by().values("line__start")[:1]),
                Subquery(_live(line=SHARED)),
            )
        )
        .annotate(trial=Subquery(_running(user)))  # type: ignore[no-redef]  # Checkpoint says what it is
        .order_by()
    )
)
"""By the person's number: every new turn asks. With the trial in their line, if there is one, so that it costs no query
of its own where there is none."""


class Decision(models.Model):
    """The audit log of checkpoints: who said what, when, and why."""

    class Verb(models.TextChoices):
        APPROVE = gettext_noop("approve"), gettext_lazy("Approve")
        REJECT = gettext_noop("reject"), gettext_lazy("Reject")
        PROMOTE = gettext_noop("promote"), gettext_lazy("Promote")
        ROLL_BACK = gettext_noop("roll back"), gettext_lazy("Roll Back")
        ENDORSE = gettext_noop("endorse"), gettext_lazy("Endorse")  # the first of two who must say yes
        HOLD = gettext_noop("hold"), gettext_lazy("Hold")
        RELEASE = gettext_noop("release"), gettext_lazy("Release")  # from being held
        TRY = gettext_noop("try"), gettext_lazy("Try")  # a trial with some of the sessions began
        END_TRIAL = gettext_noop("end trial"), gettext_lazy("End Trial")
        PIN = gettext_noop("pin"), gettext_lazy("Pin")
        UNPIN = gettext_noop("unpin"), gettext_lazy("Unpin")
        LET_GO = gettext_noop("let go"), gettext_lazy("Let Go")  # its files were removed
        IMPORT = gettext_noop("import"), gettext_lazy("Import")
        SET_ASIDE = gettext_noop("set aside"), gettext_lazy("Set Aside")  # the samples that it served

    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="decisions")
    line = models.ForeignKey(Line, models.PROTECT, null=True, blank=True, related_name="+")
    """Where a line stepped back to the checkpoint of another that it started from; null: the checkpoint's own."""
    verb = models.CharField(max_length=12, choices=Verb)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    reason = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "training_decision"
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.verb} {self.checkpoint}"


class Trial(models.Model):
    """A canary: some sessions of a line are answered by a candidate that passed, until enough is known. Which ones is
    decided by a hash of the session, so that one keeps its weights."""

    class Outcome(models.TextChoices):
        RUNNING = ""
        BETTER = gettext_noop("better")
        NO_WORSE = gettext_noop("no worse")
        WORSE = gettext_noop("worse")
        STOPPED = gettext_noop("stopped")  # by a person, or as the candidate moved on

    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="trials")
    against = models.ForeignKey(Checkpoint, models.PROTECT, related_name="+")
    """What was live when it began."""
    line = models.ForeignKey(Line, models.PROTECT, related_name="trials")
    share = models.PositiveSmallIntegerField()
    """Per cent of the line's sessions; 0: reviewers only."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null: the line's policy."""
    since = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=12, choices=Outcome, blank=True, default=Outcome.RUNNING)
    evidence = models.JSONField(default=dict, blank=True)
    """What it ended on: thumbs of both, and the sequential test's figures."""

    class Meta:
        db_table = "training_trial"
        ordering = ("-since",)
        constraints = (
            models.UniqueConstraint(fields=("line",), condition=Q(ended_at=None), name="one_trial_a_line"),
            models.CheckConstraint(condition=Q(share__lte=100), name="shares_are_per_cent"),
        )

    def __str__(self) -> str:
        return f"trial of {self.checkpoint}"


class Taint(models.Model):
    """A checkpoint learned from something that its people have since taken back."""

    checkpoint = models.ForeignKey(Checkpoint, models.CASCADE, related_name="taints")
    samples = models.PositiveIntegerField()
    """How many were taken back of those that it, or what it came from, learned from."""
    reason = models.CharField(max_length=200)
    at = models.DateTimeField(default=timezone.now)
    cleaned_by = models.ForeignKey("Cleaning", models.SET_NULL, null=True, blank=True, related_name="taints")

    class Meta:
        db_table = "training_taint"
        ordering = ("-at", "-pk")
        constraints = (models.UniqueConstraint(fields=("checkpoint",), name="one_taint_a_checkpoint"),)

    def __str__(self) -> str:
        return f"{self.checkpoint} is tainted"
