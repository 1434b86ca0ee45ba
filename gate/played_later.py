"""Read what agents played after the gate had stopped waiting for it, while the candidate still waits for a yes."""

from __future__ import annotations

from dataclasses import asdict

from django.db import transaction

from checkpoints.models import Checkpoint, Decision
from core.errors import IllegalMove
from core.states import moved
from episodes import exams
from episodes.models import Exam
from gate import agent_part
from gate.findings import Check
from gate.models import Examination


def catch_up() -> None:
    """Read what was played late, and end what is asked of candidates that are decided. Safe to call at any time."""
    status = Checkpoint.Status
    for one in Exam.objects.filter(ended_at=None).exclude(candidate__status__in=(status.CANDIDATE, status.PASSED)):
        exams.end(one, f"{one.candidate} is {one.candidate.status} by now.")
    late = Exam.objects.filter(lapsed_at__isnull=False, candidate__status=status.PASSED)
    for one in late.select_related("candidate", "live"):
        if one.ended_at is not None or agent_part.is_played(one):
            exams.end(one)
            Exam.objects.filter(pk=one.pk).update(lapsed_at=None)
            _read(one.candidate)


def _read(candidate: Checkpoint) -> None:
    """Put the agents' part of this candidate's exam in place of the one that was not played. It is rejected where that
    failed; else its line's policy is asked anew."""
    exam = Examination.objects.select_related("checkpoint", "against").filter(checkpoint=candidate).first()
    if exam is None:
        return
    found = agent_part.findings(exam)
    exam.checks = [check for check in exam.checks if check.get("where") != "agents"] + [asdict(one) for one in found]
    failed = [check for check in found if not check.passed]
    exam.passed = not failed
    try:
        with transaction.atomic():
            _decide(candidate, failed)
            exam.save(update_fields=["agents", "checks", "passed"])
    except IllegalMove:  # a person was quicker
        return
    moved.send(sender=Examination, pk=exam.pk, status="done")


def _decide(candidate: Checkpoint, failed: list[Check]) -> None:
    if not failed:
        candidate.announce()
        return
    reason = " ".join(check.sentence for check in failed)
    candidate.move(Checkpoint.Status.REJECTED, reason=reason)
    Decision.objects.create(checkpoint=candidate, verb=Decision.Verb.REJECT, by=None, reason=reason)
    agent_part.call_off(candidate, f"{candidate} was rejected.")
