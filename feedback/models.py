"""Store feedback: what a person or a test said of a turn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from chat import turns
from chat.models import Turn
from chat.replying.retries import KeyReused
from core.errors import TalkbackError
from feedback import reasons, signals
from feedback import spans as marked
from feedback.spans import Span

RECENT, RECENT_LONGEST, RECENT_LOOKED_AT = 5, 160, 60
"""How many wishes are offered again, how many characters such a wish has, and among how many they are looked for."""


class MarksInvalid(TalkbackError):
    """A mark is on no words of this reply."""

    code, status = "marks_invalid", 400


class FeedbackQuerySet(models.QuerySet["Feedback"]):
    """Give, mark and withdraw feedback; every write to it is here."""

    def standing(self) -> FeedbackQuerySet:
        """What was not withdrawn or replaced."""
        return self.filter(withdrawn_at=None)

    def recent_guidance(self, by: User) -> list[str]:
        """What this person asked for lately, newest first, each wish once: to be asked for again in one tap."""
        told: dict[str, str] = {}
        said = self.standing().filter(by=by, kind=Feedback.Kind.GUIDANCE, turn__session__deleted_at=None)
        rows = said.order_by("-created_at", "-pk")
        for text in rows.values_list("text", flat=True)[:RECENT_LOOKED_AT]:
            words = " ".join(text.split())
            if len(words) <= RECENT_LONGEST:
                told.setdefault(words.casefold().rstrip("."), words)
        return list(told.values())[:RECENT]

    @transaction.atomic
    def give(
        self,
        turn: Turn,
        *,
        by: User,
        kind: str,
        value: int = 0,
        text: str | None = None,
        tags: Sequence[str] | None = None,
        exit_code: int | None = None,
        spans: Sequence[Sequence[int]] | None = None,
        wish: str | None = None,
    ) -> Feedback:
        """Say one thing of a turn, in place of what this person said of that kind before. Saying it again is nothing.

        None leaves text, tags, exit code or spans as they stand, if the value is still the same; with another value
        they go, since they spoke of the one before. A `wish` goes with other words than its own. The verdict is due, or
        due again. Whether it comes too late for the sample is the judge's to see: this room knows nothing of samples,
        and only the judge looks at turn and sample at one moment. It then sets `late`. Raises TurnUnfinished before the
        reply is whole, and MarksInvalid where a span is no part of it.
        """
        turn = turns.locked(turn)
        painted = None if spans is None else [list(span) for span in check_spans(turn, spans)]
        before = self.standing().filter(turn=turn, by=by, kind=kind).first()
        kept = before if before is not None and before.value == value else Feedback()
        said = {
            "value": value,
            "text": kept.text if text is None else text,
            "tags": kept.tags if tags is None else list(tags),
            "exit_code": kept.exit_code if exit_code is None else exit_code,
            "spans": kept.spans if painted is None else painted,
            "wish": wish if wish is not None else kept.wish if text in (None, kept.text) else "",
        }
        if before is not None and all(getattr(before, name) == value for name, value in said.items()):
            return before
        self.standing().filter(turn=turn, by=by, kind=kind).update(withdrawn_at=timezone.now())
        given = self.create(turn=turn, by=by, kind=kind, **said)
        turns.reopen(turn)
        return given

    def bring(self, given: Iterable[Any]) -> None:
        """Store what was said in another program of replies that it brought along: no verdict is due of it."""
        self.bulk_create(given, batch_size=200)

    @transaction.atomic
    def say_why(
        self, turn: Turn, *, by: User, value: int = 0, text: str | None = None, tags: Sequence[str] | None = None
    ) -> Feedback | None:
        """Say why this person's thumb was given. None, and nothing is said, where no thumb stands, or not one of this
        `value` (0: whichever stands): reasons may come after the thumb that they are of was changed or taken back."""
        turn = turns.locked(turn)
        thumb = self.standing().filter(turn=turn, by=by, kind=Feedback.Kind.THUMB).first()
        if thumb is None or value not in (0, thumb.value):
            return None
        return self.give(turn, by=by, kind=Feedback.Kind.THUMB, value=thumb.value, text=text, tags=tags)

    @transaction.atomic
    def mark(self, turn: Turn, *, by: User, start: int, end: int, sign: int) -> bool:
        """Mark characters `start` to `end` of the reply as good (1) or bad (-1), or take marks off them (0), whatever
        this person has marked elsewhere in it. Where marks overlap, the newest wins. False when that was so already.

        Raises TurnUnfinished and MarksInvalid as `give` does.
        """
        turn = turns.locked(turn)
        before = self.standing().filter(turn=turn, by=by, kind=Feedback.Kind.MARKS).first()
        spans = [] if before is None else before.spans
        painted = check_spans(turn, [*spans, (start, end, sign)])
        if not painted:
            return self.withdraw(turn, by=by, kind=Feedback.Kind.MARKS)
        given = self.give(turn, by=by, kind=Feedback.Kind.MARKS, spans=painted)
        return before is None or given.pk != before.pk

    @transaction.atomic
    def withdraw(self, turn: Turn, *, by: User, kind: str) -> bool:
        """Take back what this person said of that kind. False when nothing stood.

        What was learned with it is marked at once: `signals.checkpoints_tainted_by` names them.
        """
        turns.locked(turn)
        said = self.filter(turn=turn, by=by, kind=kind)
        stood = list(said.values_list("created_at", "withdrawn_at"))
        if not said.standing().update(withdrawn_at=timezone.now()):
            return False
        signals.withdrawn.send(type(turn), turn_id=turn.pk, spans=stood)
        turns.reopen(turn)
        return True


def check_spans(turn: Turn, spans: Sequence[Sequence[int]]) -> list[Span]:
    """These marks as they are kept on this reply. Raises MarksInvalid."""
    try:
        return marked.paint(spans, len(turn.text))
    except ValueError as error:
        raise MarksInvalid(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error


class Feedback(models.Model):
    """One thing said of one turn. Changing it replaces the row; the old one is kept, withdrawn."""

    class Kind(models.TextChoices):
        THUMB = "thumb", pgettext_lazy("feedback", "Thumb")  # value 1 or -1
        REWRITE = "rewrite", pgettext_lazy("feedback", "Rewrite")  # "it should have said …"
        # "next time, do …": a wish, as the person or judge.hints.wish_words words it
        GUIDANCE = "guidance", pgettext_lazy("feedback", "Guidance")
        # a test's: value 1 passed, -1 failed; its text is the test's output
        VERDICT = "verdict", pgettext_lazy("feedback", "Verdict")
        MARKS = "marks", pgettext_lazy("feedback", "Marks")  # words of the reply that were good or bad

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="feedback")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="feedback")
    kind = models.CharField(max_length=8, choices=Kind)
    value = models.SmallIntegerField(default=0)
    text = models.TextField(blank=True)
    tags = models.JSONField(default=list, blank=True)
    """Why, in single words: wrong, too long, tone … They go with a thumb, and so does `text`: anything else."""
    wish = models.TextField(blank=True)
    """Of guidance: how it holds for every reply, where the person worded that themselves. Empty: judge.hints.wish_words
    does."""
    exit_code = models.BigIntegerField(null=True, blank=True)
    """What the test ended with; null: it did not say."""
    spans = models.JSONField(default=list, blank=True)
    """[[start, end, 1 or -1]]: marked words as half-open ranges of characters of the turn's text, in order, apart."""
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

    @property
    def shown_tags(self) -> str:
        """Its tags as a page shows them."""
        return ", ".join(reasons.Tag(tag).shown for tag in self.tags)


class ReceiptManager(models.Manager["Receipt"]):
    def is_new(self, turn: Turn, *, key: str, body: bytes) -> bool:
        """True the first time a request with this Idempotency-Key is seen; call it in the request's transaction.

        `key` names the caller as well, so that no caller meets another's. Raises KeyReused when it came with another
        body before.
        """
        digest = hashlib.sha256(body).hexdigest()
        receipt, is_new = self.get_or_create(
            key=hashlib.sha256(key.encode()).hexdigest(), defaults={"turn": turn, "body": digest}
        )
        if receipt.body != digest:
            raise KeyReused
        return is_new


class Receipt(models.Model):
    """Proof that a request was carried out: sent again late, it must not undo what was said since."""

    turn = models.ForeignKey(Turn, models.CASCADE, related_name="receipts")
    key = models.CharField(max_length=64, unique=True)
    """SHA-256 of the API key's number and the request's Idempotency-Key."""
    body = models.CharField(max_length=64)
    """SHA-256 of what it said."""
    created_at = models.DateTimeField(default=timezone.now)

    objects = ReceiptManager()

    def __str__(self) -> str:
        return f"receipt {self.pk} on {self.turn_id}"
