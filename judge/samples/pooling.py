"""Which lines learn from a turn: its person's own, and the shared one where they said so.

A sample belongs to the line that answers its person. Where a person of a private line let the shared one learn as well,
a second sample says the same there; `Sample.origin`, the turn's number, is what holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from uuid import UUID

from django.db.models import Q, QuerySet

from checkpoints.models import SHARED, Member
from judge.models import Judgement
from training import batches
from training.models import Run, Sample


def enter(sample: Sample, turn: UUID) -> None:
    """Save a new sample of this turn where it teaches, in place of what waits there. Call it with the turn's session
    locked, as a verdict is written: who changes their line or their word waits for that lock (privacy.membership).

    The shared line learns a turn once: what it learned before, of an earlier verdict or an earlier line, is enough.
    """
    member = Member.objects.filter(user__sessions__turns=turn).first()
    sample.origin, sample.line_id = turn, member.line_id if member is not None else SHARED
    second = copy(sample)
    sample.save()
    if member is not None and member.pools and not of(turn).filter(line=SHARED, status=Sample.Status.TRAINED).exists():
        second.line_id = SHARED
        second.save()


def enter_all(samples: Sequence[Sample], user: int) -> None:
    """Save new samples of this person's turns, of which there was none before; each has its turn as `origin`. Few
    queries, and no signal: the caller announces what they complete."""
    member = Member.objects.filter(user=user).first()
    for sample in samples:
        sample.line_id = member.line_id if member is not None else SHARED
    seconds = [copy(sample) for sample in samples] if member is not None and member.pools else []
    for second in seconds:
        second.line_id = SHARED
    Sample.objects.bulk_create([*samples, *seconds])


def of(turn: UUID) -> QuerySet[Sample]:
    """All samples of one turn, in whichever line."""
    return Sample.objects.filter(origin=turn)


def judged(run: Run) -> QuerySet[Judgement]:
    """The verdicts that a run learned from, those of other lines' people included."""
    if run.again_id is not None:  # its samples stay those of the run that it repeats
        learned = batches.learned(run)
        return Judgement.objects.filter(Q(sample__in=learned) | Q(turn__in=learned.values("origin"))).order_by("pk")
    own = Q(sample__in=run.samples.values("pk"))  # and not by a join: that would read every verdict there is
    return Judgement.objects.filter(own | Q(turn__in=run.samples.values("origin"))).order_by("pk")


def is_claimed(turn: UUID) -> bool:
    """True while a run of any line is learning this turn."""
    return of(turn).filter(status=Sample.Status.CLAIMED).exists()


def drop(waiting: QuerySet[Sample], reason: str, **emptied: object) -> int:
    """Put away what waits of these, with the reason. IllegalMove when a run has claimed one meanwhile."""
    dropped = list(waiting.filter(status=Sample.Status.READY))
    for sample in dropped:
        sample.move(Sample.Status.STALE, drop_reason=reason, **emptied)
    return len(dropped)
