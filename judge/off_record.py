"""Delete what was made of a turn that is off the record: its votes, hints and samples, and what its verdict says.

Both a verdict that finds learning off and a person who takes something back (privacy.consent) end here.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop

from chat.models import Turn
from judge.models import Judgement, Ruling
from judge.samples import sample_rows
from judge.samples.sample_rows import Reason
from training.models import Sample
from training.provenance import taints

OFF_RECORD = gettext_noop("its person took it off the record")
"""The mark, as drop_reason, of a sample that goes as soon as no run holds it."""


def forget(turn: Turn, judgement: Judgement | None) -> None:
    """Leave nothing of what was made of a turn off the record but that learning is off there; what was learned is
    emptied, and still counts. The judgement is changed and not saved.

    Call it inside a transaction, with the turn's session locked (reviews.lock_sessions) before the turn itself is.

    Where a reviewer said no, and not the person, all that stays as it is: the reviewer may undo it.
    """
    if turn.session.learns and not turn.withheld and is_refused(turn):
        return
    turn.votes.all().delete()
    turn.hints.all().delete()
    turn.asked_again.all().delete()
    if judgement is not None:
        _drop(judgement)
        judgement.evidence = judgement.hint = judgement.hint_from = judgement.reward_from = judgement.rule = ""
        judgement.topic = ""
        judgement.reward = judgement.confidence = None
        judgement.teacher = {}
        judgement.reason, judgement.reason_code = Reason.OFF, Reason.OFF.code


def emptied(rows: QuerySet[Sample]) -> None:
    """Of these samples, which have a drop_reason, delete those that wait, and empty those that were learned: the
    checkpoints that did are tainted. One that a run holds stays."""
    rows.filter(status__in=(Sample.Status.READY, Sample.Status.STALE)).delete()
    if rows.filter(status=Sample.Status.TRAINED).update(**sample_rows.NOTHING):
        taints.mark(rows)


def is_refused(turn: Turn) -> bool:
    """Whether a reviewer's "never learn from this" stands."""
    last = Ruling.objects.filter(turn=turn, after__has_key="learns").order_by("-pk").first()
    return last is not None and last.after["learns"] is False


def _drop(judgement: Judgement) -> None:
    pks = [pk for pk in (judgement.sample_id, judgement.learned_id) if pk]
    rows = Sample.objects.filter(Q(pk__in=pks) | Q(origin=judgement.turn_id))
    rows.update(drop_reason=OFF_RECORD)  # first, so that a run that takes or leaves one meanwhile meets the mark
    emptied(rows)
    left: dict[Any, Sample] = rows.in_bulk()
    judgement.sample, judgement.learned = left.get(judgement.sample_id), left.get(judgement.learned_id)
