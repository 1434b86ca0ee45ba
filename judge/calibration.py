"""Votes on what a person has decided already: they decide nothing, and show how good the judge is."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from chat.models import Turn
from judge import evidence, judges, verdicts
from judge.judges import Judge
from judge.models import Vote
from judge.sittings import sitting
from training.models import Checkpoint, Run

WINDOW = timedelta(hours=1)
"""How old a verdict may be to be voted on afterwards: a backlog is not worth the cores."""


def due() -> QuerySet[Turn]:
    """Turns that a person's word decided lately and that nobody voted on, newest first."""
    decided = Q(judgement__reward_from="thumb") | Q(judgement__hint_from__in=("guidance", "rewrite"))
    return (
        Turn.objects.filter(decided, status=Turn.Status.JUDGED, votes=None)
        .filter(judgement__judged_at__gt=timezone.now() - WINDOW)
        .exclude(judgement__evidence="")  # a thumb alone: there is nothing a judge could read
        .order_by("-judgement__judged_at")
    )


def is_quiet() -> bool:
    """True when nothing that anybody waits for is at work: no reply, no verdict, no run, no exam."""
    return not (
        Turn.objects.filter(status__in=(Turn.Status.ANSWERING, Turn.Status.OBSERVED)).exists()
        or Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).exists()
        or Checkpoint.objects.filter(status__in=(Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED)).exists()
    )


def is_due() -> bool:
    """True when there is a turn to vote on and nothing better to do."""
    return bool(settings.CALIBRATION_VOTES) and is_quiet() and due().exists()


def vote(who: Judge) -> bool:
    """Cast and keep the votes on one due turn. True when there may be another.

    One at a time everywhere, and only while nobody waits for anything; otherwise the sweep asks again later.
    """
    if not settings.CALIBRATION_VOTES:
        return False
    with sitting("calibration", for_s=verdicts.ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None or not is_quiet() or (turn := due().first()) is None:
            return False
        seen = evidence.of(turn)
        questions = list(Vote.Question) if seen.unswayed.next_role else [Vote.Question.HINT]
        verdicts.cast(turn, seen, questions, who=who, priority=judges.AFTERTHOUGHT)
        turn.announce()
        return True
