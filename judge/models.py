"""Verdicts: on a turn, and on a candidate."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.utils import timezone

from chat.models import Turn
from core.states import Stateful
from training.models import Checkpoint, Sample


class Judgement(models.Model):
    """What the evidence of one turn came to, and why. One a turn; re-opened verdicts are written over."""

    turn = models.OneToOneField(Turn, models.CASCADE, related_name="judgement")
    reward = models.SmallIntegerField(null=True, blank=True)
    """-1, 0 or 1; null: undecided."""
    reward_from = models.CharField(max_length=12, blank=True)
    """reviewer | thumb | test | rule | votes"""
    confidence = models.FloatField(null=True, blank=True)
    """How likely the reward is right, or, where there is none because the judge is not sure enough, what it leans to:
    measured on gold follow-ups (judge.scales), else the share of the votes that agree."""
    topic = models.CharField(max_length=8, blank=True)
    """`new`: votes say that the next message turns to another subject, and nothing of the reply."""
    hint = models.TextField(blank=True)
    hint_from = models.CharField(max_length=12, blank=True)
    """guidance | rewrite | said | votes | reviewer"""
    teacher = models.JSONField(default=dict, blank=True)
    """{"tokens", "logprobs", "old_logprobs"} at T = 1: what the hint would raise or lower."""
    sample = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="judgement")
    reason = models.CharField(max_length=200, blank=True)
    """Why there is no sample, or what of the evidence was not used."""
    reason_code = models.CharField(max_length=24, blank=True, db_index=True)
    """The name of that reason in `judge.samples.Reason`, lower case: what the ledger counts."""
    rule = models.CharField(max_length=40, blank=True)
    """The visible rule (judge.rules) that decided the reward without a model; empty where none did."""
    learned = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="first_judgement")
    """The sample of an earlier verdict, learned before late feedback re-opened it; that happens once."""
    evidence = models.TextField(blank=True)
    """As the judge read it."""
    held_out = models.BooleanField(default=False, db_index=True)
    """Kept for examining: it never trains, and the gate asks candidates about it."""
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
    role = models.CharField(max_length=12, blank=True)
    """Whose next state it read: user | tool | environment | test | person."""
    weight = models.FloatField(default=1.0)
    """What it counts in the majority: less for a judge whose calibration is below its floor (judge.standing)."""
    evidence = models.CharField(max_length=16, blank=True)
    """Digest of what the judge read; a vote on other evidence is kept and does not count."""
    raw = models.TextField(blank=True)
    score = models.SmallIntegerField(null=True, blank=True)
    topic = models.CharField(max_length=8, blank=True)
    """`new` where it says that the subject changes; its score is 0 then."""
    probabilities = models.JSONField(default=dict, blank=True)
    """{answer: probability} of a judge that gives them in one pass, as its tokens do; empty for a sampled vote."""
    hint = models.TextField(blank=True)
    failure = models.CharField(max_length=200, blank=True)
    """Why there is no score: unreadable, too late, unreachable."""
    seconds = models.FloatField(default=0)
    tokens = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    """Prompt tokens that another vote had computed already."""
    cast_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("question", "index", "pk")

    def __str__(self) -> str:
        return f"{self.question} vote {self.index} on {self.turn_id}"


class Sitting(models.Model):
    """A worker is at work on this matter until then, so that a task that was sent twice does the work once.

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
    pack = models.JSONField(default=list, blank=True)
    """The general regression pack, item by item, as both answered it: judge/gate's `pack` says of what form."""
    personal = models.JSONField(default=list, blank=True)
    """The held-out turns of people's own, as both did on them."""
    meter = models.JSONField(default=dict, blank=True)
    """The overfitting meter's figures by name, of both."""
    passed = models.BooleanField(null=True)
    started_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

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
        ordering = ("-turn__created_at", "-pk")
        constraints = (models.UniqueConstraint(fields=("examination", "turn"), name="asked_again_once"),)

    def __str__(self) -> str:
        return f"{self.turn_id} asked again in {self.examination_id}"


class Hint(Stateful):
    """One proposed lesson of one turn, and what became of it. A turn learns from at most one of its hints."""

    class Status(models.TextChoices):
        WAITING = "waiting"  # for a person
        ACCEPTED = "accepted"  # as it was proposed
        EDITED = "edited"  # accepted in a reviewer's words
        MERGED = "merged"  # it says what another hint says
        REJECTED = "rejected"

    MOVES: ClassVar = {
        Status.WAITING: {Status.ACCEPTED, Status.EDITED, Status.MERGED, Status.REJECTED},
        Status.ACCEPTED: {Status.WAITING, Status.EDITED, Status.MERGED, Status.REJECTED},
        Status.EDITED: {Status.WAITING, Status.ACCEPTED, Status.MERGED, Status.REJECTED},
        Status.MERGED: {Status.WAITING, Status.ACCEPTED, Status.EDITED, Status.REJECTED},
        Status.REJECTED: {Status.WAITING, Status.ACCEPTED, Status.EDITED, Status.MERGED},
    }

    class Source(models.TextChoices):
        """Where the words come from that the hint was drawn from; the least trusted of them where there are several."""

        PERSON = "person"  # a correction that a person wrote beside the reply
        SAID = "said"  # what the user's next message asks for, in the words of that message
        USER = "user"  # the user's next message, or what they say beside the reply, read by a judge
        ENVIRONMENT = "environment"
        TEST = "test"
        TOOL = "tool"
        FILE = "file"
        WEB = "web"

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="hints")
    status = models.CharField(max_length=12, choices=Status, default=Status.WAITING, db_index=True)
    source = models.CharField(max_length=12, choices=Source)
    proposed = models.TextField()
    """As it was worded first; never changed, and once a turn (the turn's lock sees to it: PostgreSQL's indexes take no
    text as long as a person's correction may be)."""
    text = models.TextField()
    """As it stands: a reviewer may have edited it."""
    evidence = models.CharField(max_length=16, blank=True)
    """Digest of the evidence that it was drawn from."""
    confidence = models.FloatField(null=True, blank=True)
    """Share of the valid votes that brought a hint; 1 for a person's own words."""
    gain = models.FloatField(null=True, blank=True)
    """Nats a token by which it moves the teacher in the wanted direction (hints.gain)."""
    teacher = models.JSONField(default=dict, blank=True)
    """{"tokens", "logprobs", "old_logprobs"} at T = 1: the heat map, before anything is trained."""
    merged_into = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="merged")
    conflicts = models.JSONField(default=list, blank=True)
    """[{"hint": pk, "sentence": str}]: standing hints of the same person that ask for the opposite."""
    waits_because = models.CharField(max_length=200, blank=True)
    """Why it was not accepted by itself, in a sentence."""
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null for a decided hint: an acceptance policy, or the person whose own words it is."""
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-created_at", "-pk")

    def __str__(self) -> str:
        return f"hint {self.pk} on {self.turn_id}"

    @property
    def is_accepted(self) -> bool:
        return self.status in (self.Status.ACCEPTED, self.Status.EDITED)


class Overruling(models.Model):
    """A reviewer's word on the reward of one turn; it outranks everything else as long as it stands."""

    turn = models.OneToOneField(Turn, models.CASCADE, related_name="overruling")
    reward = models.SmallIntegerField(null=True, blank=True)
    """-1, 0 or 1; null: no reward at all."""
    reason = models.TextField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.turn_id} overruled"


class Acceptance(models.Model):
    """When a voted hint of this source is accepted without a person. No row: the default in judge.reviews."""

    source = models.CharField(max_length=12, choices=Hint.Source, unique=True)
    above = models.FloatField(null=True, blank=True)
    """Least confidence; null: it always waits."""
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    changed_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.source}: {'waits' if self.above is None else f'accepted from {self.above:g} on'}"


class Ruling(models.Model):
    """The audit log of hints and rewards: who did what, when, and why. Never changed, never deleted with its hint."""

    class Verb(models.TextChoices):
        ACCEPT = "accept"
        EDIT = "edit"
        MERGE = "merge"
        REJECT = "reject"
        NEVER_LEARN = "never learn"
        OVERTURN = "overturn"
        UNDO = "undo"
        POLICY = "policy"  # an acceptance policy, or a judge's, was changed

    verb = models.CharField(max_length=12, choices=Verb)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null: an acceptance policy."""
    turn = models.ForeignKey(Turn, models.SET_NULL, null=True, blank=True, related_name="rulings")
    hint = models.ForeignKey(Hint, models.SET_NULL, null=True, blank=True, related_name="rulings")
    before = models.JSONField(default=dict, blank=True)
    """What stood, as far as this changed it: status, text, merged_into, reward, learns …"""
    after = models.JSONField(default=dict, blank=True)
    reason = models.TextField(blank=True)
    undoes = models.OneToOneField("self", models.SET_NULL, null=True, blank=True, related_name="undone_by")
    bulk = models.UUIDField(null=True, blank=True, db_index=True)
    """The same for all rulings of one bulk action: they are undone together."""
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-at", "-pk")

    def __str__(self) -> str:
        return f"{self.verb} at {self.at:%Y-%m-%d %H:%M}"


class GoldReading(models.Model):
    """What one judge made of one gold follow-up (judge/gold.jsonl, or a file of the operator's)."""

    item = models.CharField(max_length=80)
    gold = models.CharField(max_length=16)
    """Digest of the item, so that a changed item is read anew."""
    judge = models.CharField(max_length=120)
    prompt_version = models.CharField(max_length=40)
    role = models.CharField(max_length=12)
    expected = models.SmallIntegerField()
    score = models.SmallIntegerField(null=True, blank=True)
    """The majority's; null: too few votes could be read."""
    confidence = models.FloatField(null=True, blank=True)
    wants_hint = models.BooleanField(null=True)
    hint = models.TextField(blank=True)
    raw = models.JSONField(default=list, blank=True)
    """[{"question", "said", "raw", "failure"}], and `topic` or `probabilities` where there are some: its votes."""
    seconds = models.FloatField(default=0)
    """Of all its votes together, as if they had been cast one after another."""
    tokens = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    read_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-read_at", "-pk")
        indexes = (models.Index(fields=("judge", "prompt_version"), name="gold_readings_by_judge"),)

    def __str__(self) -> str:
        return f"{self.judge} on {self.item}"


class Measuring(models.Model):
    """One judge is asked to read the gold follow-ups, and how that goes. Its readings are those made since."""

    judge = models.CharField(max_length=120)
    votes = models.PositiveSmallIntegerField()
    """How many on each question."""
    total = models.PositiveIntegerField()
    anew = models.BooleanField(default=True)
    """False: what this judge has read before with the same prompts counts."""
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)
    failure = models.CharField(max_length=200, blank=True)
    """Why it ended before its time, or what it waits for; empty while all is well."""

    class Meta:
        ordering = ("-asked_at", "-pk")
        constraints = (
            models.UniqueConstraint(
                fields=("judge",), condition=models.Q(finished_at=None), name="one_measuring_at_a_time"
            ),
        )

    def __str__(self) -> str:
        return f"measuring of {self.judge}"


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
        ordering = ("-at", "-pk")
        constraints = (models.UniqueConstraint(fields=("shadow", "by"), name="one_blind_choice_a_person"),)

    def __str__(self) -> str:
        return f"{self.picked} of {self.shadow_id}"


class Comparison(Stateful):
    """Two checkpoints on the same prompts, for people to choose between without knowing which is which."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        ANSWERED = "answered"
        FAILED = "failed"

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
    """How far the weights are apart, by layer, as `gpu_workers.distances` measures it."""
    revealed_to = models.JSONField(default=list, blank=True)
    """Numbers of the people who know which is which, and choose no more."""
    error = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
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
        ordering = ("pk",)
        constraints = (models.UniqueConstraint(fields=("comparison", "place", "by"), name="one_pick_a_person"),)

    def __str__(self) -> str:
        return f"{self.picked} of {self.comparison_id}:{self.place}"


class Erasure(Stateful):
    """A person asked that everything of theirs goes. Their conversations are deleted in slices, and counted here: not a
    word of them is."""

    class Status(models.TextChoices):
        ASKED = "asked"
        DONE = "done"

    MOVES: ClassVar = {Status.ASKED: {Status.DONE}, Status.DONE: set()}

    status = models.CharField(max_length=8, choices=Status, default=Status.ASKED, db_index=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="erasures")
    total = models.PositiveIntegerField()
    """Conversations there were when it was asked for; what is begun afterwards stays."""
    gone = models.JSONField(default=dict, blank=True)
    """{"conversations", "replies", "feedback", "samples", "learned", "keys"}: how many went so far."""
    checkpoints = models.JSONField(default=list, blank=True)
    """Numbers of those whose weights learned from what went."""
    asked_at = models.DateTimeField(default=timezone.now)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-pk",)
        constraints = (
            models.UniqueConstraint(fields=("user",), condition=models.Q(status="asked"), name="one_erasure_at_a_time"),
        )

    def __str__(self) -> str:
        return f"erasure {self.pk}"
