"""Verdicts: on a turn, and on a candidate."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_noop

from chat.models import Turn
from core.states import Stateful
from training.models import Sample


class Judgement(models.Model):
    """What the evidence of one turn came to, and why. One a turn; re-opened verdicts are written over."""

    turn = models.OneToOneField(Turn, models.CASCADE, related_name="judgement")
    reward = models.SmallIntegerField(null=True, blank=True)
    """-1, 0 or 1; null: undecided."""
    reward_from = models.CharField(max_length=12, blank=True)
    """reviewer | thumb | test | rule | votes"""
    confidence = models.FloatField(null=True, blank=True)
    """How likely the reward is right, or, where there is none because the judge is not sure enough, what it leans to:
    measured on gold follow-ups (judge.calibration.scales), else the share of the votes that agree."""
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
    reason_code = models.CharField(max_length=24, blank=True)
    """The name of that reason in `judge.samples.sample_rows.Reason`, lower case: what the ledger counts."""
    rule = models.CharField(max_length=40, blank=True)
    """The visible rule (judge.votes.visible_rules) that decided the reward without a model; empty where none did."""
    learned = models.OneToOneField(Sample, models.SET_NULL, null=True, blank=True, related_name="first_judgement")
    """The sample of an earlier verdict, learned before late feedback re-opened it; that happens once."""
    evidence = models.TextField(blank=True)
    """As the judge read it."""
    held_out = models.BooleanField(default=False, db_index=True)
    """Kept for examining: it never trains, and the gate asks candidates about it."""
    judged_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = (
            # What is worth a second look is found by it: a verdict's row holds what the judge read.
            models.Index(fields=("reward_from", "confidence", "reward", "turn"), name="judgements_by_source"),
            models.Index(fields=("reason_code", "turn"), name="judgements_by_reason"),
            # So is which samples turns became, and what they were worth.
            models.Index(
                fields=("turn", "sample", "learned", "reward", "reward_from", "confidence", "reason_code", "judged_at"),
                name="judgements_of_turns",
            ),
        )

    def __str__(self) -> str:
        return f"judgement of {self.turn_id}"


class Vote(models.Model):
    """One judge's reading, failed ones too, raw text kept."""

    class Question(models.TextChoices):
        SCORE = gettext_noop("score")
        HINT = gettext_noop("hint")

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="votes")
    question = models.CharField(max_length=5, choices=Question)
    index = models.PositiveSmallIntegerField()
    judge = models.CharField(max_length=120)
    prompt_version = models.CharField(max_length=40)
    role = models.CharField(max_length=12, blank=True)
    """Whose next state it read: user | tool | environment | test | person."""
    weight = models.FloatField(default=1.0)
    """What it counts in the majority: less for a judge whose calibration is below its floor
    (judge.calibration.vote_floor)."""
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


class Hint(Stateful):
    """One proposed lesson of one turn, and what became of it. A turn learns from at most one of its hints."""

    class Status(models.TextChoices):
        WAITING = gettext_noop("waiting")  # for a person
        ACCEPTED = gettext_noop("accepted")  # as it was proposed
        EDITED = gettext_noop("edited")  # accepted in a reviewer's words
        MERGED = gettext_noop("merged")  # it says what another hint says
        REJECTED = gettext_noop("rejected")

    MOVES: ClassVar = {
        Status.WAITING: {Status.ACCEPTED, Status.EDITED, Status.MERGED, Status.REJECTED},
        Status.ACCEPTED: {Status.WAITING, Status.EDITED, Status.MERGED, Status.REJECTED},
        Status.EDITED: {Status.WAITING, Status.ACCEPTED, Status.MERGED, Status.REJECTED},
        Status.MERGED: {Status.WAITING, Status.ACCEPTED, Status.EDITED, Status.REJECTED},
        Status.REJECTED: {Status.WAITING, Status.ACCEPTED, Status.EDITED, Status.MERGED},
    }

    class Source(models.TextChoices):
        """Where the words come from that the hint was drawn from; the least trusted of them where there are several."""

        PERSON = gettext_noop("person")  # a correction that a person wrote beside the reply
        SAID = gettext_noop("said")  # what the user's next message asks for, in the words of that message
        USER = gettext_noop("user")  # the user's next message, or what they say beside the reply, read by a judge
        ENVIRONMENT = gettext_noop("environment")
        TEST = gettext_noop("test")
        TOOL = gettext_noop("tool")
        FILE = gettext_noop("file")
        WEB = gettext_noop("web")

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
    """When a voted hint of this source is accepted without a person. No row: the default in judge.hints.acceptance."""

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
        ACCEPT = gettext_noop("accept")
        EDIT = gettext_noop("edit")
        MERGE = gettext_noop("merge")
        REJECT = gettext_noop("reject")
        NEVER_LEARN = gettext_noop("never learn")
        OVERTURN = gettext_noop("overturn")
        UNDO = gettext_noop("undo")
        POLICY = gettext_noop("policy")  # an acceptance policy, or a judge's, was changed

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
    """What one judge made of one gold follow-up (judge/calibration/gold.jsonl, or a file of the operator's)."""

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


class Desk(models.TextChoices):
    """What reviewers decide on at the review desk."""

    HINT = "hint"
    REWARD = "reward"


class Claim(models.Model):
    """One reviewer looks at one item of the desk, until then: no other decides on it meanwhile."""

    desk = models.CharField(max_length=8, choices=Desk)
    item = models.CharField(max_length=36)
    """The hint's number, or the turn's."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("desk", "item"), name="one_claim_an_item"),)

    def __str__(self) -> str:
        return f"{self.desk} {self.item}, by {self.by}"


class DeskRules(models.Model):
    """How one desk is worked: what reviewers go by, and how much of it two of them read."""

    desk = models.CharField(max_length=8, choices=Desk, unique=True)
    guidelines = models.TextField(blank=True)
    """Markdown."""
    share = models.PositiveSmallIntegerField(default=0)
    """Of a hundred items so many are read by a second reviewer, who is not told what the first said."""
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    changed_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"rules of {self.desk}s"


class Reading(models.Model):
    """One reviewer's own word on one item: of a first one it stands beside their decision, a second one changes
    nothing. Reviewers are compared by them."""

    desk = models.CharField(max_length=8, choices=Desk)
    turn = models.ForeignKey(Turn, models.CASCADE, related_name="readings")
    hint = models.ForeignKey(Hint, models.CASCADE, null=True, blank=True, related_name="readings")
    """Null: it is about the turn's reward."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    label = models.CharField(max_length=8)
    """accept | reject | never; of a reward 1 | 0 | -1 | none."""
    is_second = models.BooleanField(default=False)
    ruling = models.ForeignKey(Ruling, models.SET_NULL, null=True, blank=True, related_name="readings")
    """The decision that it was, of a first one."""
    settled_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    settled_at = models.DateTimeField(null=True, blank=True)
    """When a disagreement about this item was settled."""
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("pk",)
        constraints = (
            models.UniqueConstraint(fields=("hint", "by"), condition=models.Q(desk="hint"), name="one_reading_a_hint"),
            models.UniqueConstraint(
                fields=("turn", "by"), condition=models.Q(desk="reward"), name="one_reading_a_reward"
            ),
        )

    def __str__(self) -> str:
        return f"{self.label} by {self.by_id}"
