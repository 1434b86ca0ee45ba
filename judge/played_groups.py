"""Bring a group of attempts on: it can be learned from once it is complete and every step of it has its score."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from chat.models import Turn
from episodes.models import Episode, Group, counts
from judge import step_verdicts
from judge.models import Judgement
from judge.samples import sample_rows
from training.models import Sample

PLAYED = (Episode.Status.SCORED, Episode.Status.LEARNED)


def settle_left(most: int = 200) -> int:
    """Settle groups whose steps wait though none of their attempts is played: a worker died before it did, or their
    player left without opening all it meant to. Returns how many were settled."""
    waiting = Sample.objects.filter(status=Sample.Status.READY, episode__group=OuterRef("pk"))
    playing = Episode.objects.filter(status=Episode.Status.PLAYING, group=OuterRef("pk"))
    left = Group.objects.filter(~Exists(playing), Exists(waiting), judged_at=None).order_by("pk")
    return sum(settle(pk) for pk in list(left.values_list("pk", flat=True)[:most]))


@transaction.atomic
def settle(pk: int) -> bool:
    """Let a group be learned from if it is complete, and no step of its counting attempts wants a score; take away
    what was made of one that stays too short. True when this call did either."""
    group = Group.objects.select_for_update().get(pk=pk)
    if group.judged_at is not None or group.split != Group.Split.TRAIN:
        return False
    standing = group.standing()
    if not standing.is_final:
        return False
    sessions = [
        session
        for session, ending, cut_by in group.episodes.filter(status__in=PLAYED).values_list(
            "session", "ending", "cut_by"
        )
        if session is not None and counts(ending, cut_by)
    ]
    if standing.state == "short":
        return _drop(sessions)
    if _reopen(sessions) or _wants_scores(sessions):
        return False
    Group.objects.filter(pk=pk).update(judged_at=timezone.now())
    sample = Sample.objects.filter(status=Sample.Status.READY, episode__group=pk).order_by("pk").last()
    if sample is not None:
        sample.announce()  # once for all of them: a batch may be full
    return True


def is_short(group: Group) -> bool:
    """Whether so few of its attempts count, now and for good, that nothing of it teaches."""
    return group.standing().stays_short


def _wants_scores(sessions: list[UUID]) -> bool:
    whole = Q(line=Turn.Line.MAIN, finish_reason__in=("stop", "length", "tool_calls"), judgement=None)
    waiting = Q(status__in=(Turn.Status.OBSERVED, Turn.Status.ANSWERING)) | Q(status=Turn.Status.CLOSED) & whole
    return Turn.objects.filter(waiting, session__in=sessions).exists()


def _reopen(sessions: list[UUID]) -> bool:
    """Have steps judged again that made no sample while their group was short: more attempts came after all."""
    turns = list(
        Turn.objects.filter(
            session__in=sessions, status=Turn.Status.JUDGED, judgement__reason=step_verdicts.SHORT.reason
        ).only("pk", "status")
    )
    for turn in turns:
        turn.move(Turn.Status.OBSERVED, observed_at=timezone.now())
    return bool(turns)


def _drop(sessions: list[UUID]) -> bool:
    """Take away the samples of a group that stays too short, and say so with each step."""
    judgements = Judgement.objects.select_related("sample").filter(
        turn__session__in=sessions, sample__status=Sample.Status.READY
    )
    found = list(judgements)
    for judgement in found:
        judgement.reason, judgement.reason_code = step_verdicts.SHORT.reason, step_verdicts.SHORT.code
        sample_rows.entered(judgement, None)
        judgement.save()
    return bool(found)
