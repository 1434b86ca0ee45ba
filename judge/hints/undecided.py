"""What there is to decide for a person: hints that wait, and rewards worth a second look."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, Count, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Lower
from django.utils.translation import gettext_noop

from chat.models import Turn
from judge.models import Hint, Judgement, Vote
from judge.samples.sample_rows import Reason

NOT_SURE = gettext_noop("not sure")

UNSURE = 0.6
"""A reward that votes decided with less confidence is worth a look: an operator's low threshold let it pass."""

NARROW = ("messages", "tools", "prompt_ids", "response_ids", "logprobs")
"""Columns of a turn as long as a conversation, which no decision reads."""


def queue(status: str = Hint.Status.WAITING, source: str = "") -> QuerySet[Hint]:
    """Hints in this state, with all a page shows of them: those that wait longest first, of others the newest decision.

    Hints of turns that are off the record are not in it. `followers`: how many other turns learn with its words.
    """
    chosen = Hint.objects.filter(status=status, turn__learns=True, turn__session__learns=True, turn__line="main")
    if source:
        chosen = chosen.filter(source=source)
    chosen = chosen.select_related(
        "turn__session__user", "turn__checkpoint", "turn__judgement", "merged_into", "decided_by"
    ).defer(*(f"turn__{name}" for name in NARROW if name != "messages"))
    chosen = chosen.annotate(followers=Count("merged", distinct=True))
    if status == Hint.Status.WAITING:
        return chosen.order_by("created_at", "pk")
    return chosen.order_by(F("decided_at").desc(nulls_last=True), "-pk")


def unclear() -> QuerySet[Turn]:
    """Turns whose reward a person should look at; `because` says why: thumb against votes, tie, low confidence, no
    quorum, or not sure. The newest first, and behind all others those of which a judge is not sure: they are many, and
    teach nothing. What a reviewer has spoken on is not among them."""
    scores = Vote.objects.filter(turn=OuterRef("pk"), question=Vote.Question.SCORE, score__isnull=False)
    total = scores.order_by().values("turn").annotate(total=Sum("score")).values("total")
    voted = Q(judgement__reward_from="votes")
    against = Q(judgement__reward_from="thumb") & (
        Q(judgement__reward=1, leaning__lt=0) | Q(judgement__reward=-1, leaning__gt=0)
    )
    # Nearly all turns are judged: an index of states would be asked first, and find them all.
    judged = Turn.objects.annotate(state=Lower("status")).filter(state=Turn.Status.JUDGED)
    found = judged.filter(learns=True, session__learns=True, overruling=None)
    found = found.filter(pk__in=_doubtful())
    found = found.annotate(leaning=Coalesce(Subquery(total), Value(0)))
    found = found.annotate(
        because=Case(
            When(voted & Q(judgement__reward=0, judgement__confidence__lte=0.5), then=Value(gettext_noop("tie"))),
            When(voted & Q(judgement__confidence__lt=UNSURE), then=Value(gettext_noop("low confidence"))),
            When(against, then=Value(gettext_noop("thumb against votes"))),
            When(judgement__reason_code=Reason.NO_QUORUM.code, then=Value(gettext_noop("no quorum"))),
            When(judgement__reason_code=Reason.UNCLEAR.code, then=Value(NOT_SURE)),
            default=Value(""),
            output_field=CharField(),
        )
    ).exclude(because="")
    found = found.annotate(is_last=Case(When(because=NOT_SURE, then=Value(1)), default=Value(0)))
    return found.select_related("session__user", "checkpoint", "judgement").order_by("is_last", "-judgement__judged_at")


def _doubtful() -> QuerySet[Judgement, Any]:
    """The turns among which those of `unclear` are, found by indexes: nearly all others are not looked at. Each way is
    asked for by itself: then its index alone is read, and no verdict."""
    voted = Q(reward_from="votes", confidence__lt=UNSURE)
    thumbed = Q(reward_from="thumb", reward__in=(1, -1))
    coded = Q(reason_code__in=(Reason.NO_QUORUM.code, Reason.UNCLEAR.code))
    first, *others = (Judgement.objects.filter(way).order_by().values("turn") for way in (voted, thumbed, coded))
    return first.union(*others, all=True)
