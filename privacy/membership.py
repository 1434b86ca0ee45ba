"""Who talks to which line, and what becomes of what they gave when that changes.

What waits in the shared line goes with a person who gets a line of their own: from then on nothing of theirs teaches
the others unless they say so. What was given to a private line stays there when its person leaves it.
"""

from __future__ import annotations

from contextlib import suppress

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.lines import LineRefused
from checkpoints.models import SHARED, Line, Member
from core.errors import IllegalMove
from judge.hints import deletion
from judge.samples import pooling
from judge.samples.sample_rows import NOTHING
from training import runs
from training.models import Run, Sample
from training.provenance import taints

TAKEN_BACK = gettext_noop("its person took back that it may teach the shared model")
"""Why a pooled sample is stale; also the mark, as drop_reason, of one that goes as soon as no run holds it."""

RETIRED = gettext_noop("its line was retired")


@transaction.atomic
def join(line: Line, user: User) -> Member:
    """From the next reply on this line answers this person and learns from them. Raises LineRefused."""
    locked = Line.objects.select_for_update().get(pk=line.pk)
    if locked.is_shared:
        raise LineRefused(_("No person is added to %(line)s: it is for all.") % {"line": locked.title})
    if locked.retired_at is not None:
        raise LineRefused(_("No person is added to %(line)s: it is retired.") % {"line": locked.title})
    _lock(user)
    member = Member.objects.filter(user=user).first()
    if member is not None and member.line_id == line.pk:
        return member
    if member is not None and member.pools:
        _take_back(user)  # they said so of another line
    leave(user)
    member = Member.objects.create(user=user, line=line)
    _made_of(user).filter(line=SHARED, status=Sample.Status.READY).update(line=line, passed_by=None)
    return member


@transaction.atomic
def leave(user: User) -> None:
    """From the next reply on the shared line answers this person and learns from them. Keys that were pinned to a
    checkpoint of the line go with them."""
    _lock(user)
    member = Member.objects.select_for_update().filter(user=user).first()
    if member is None:
        return
    hidden = Q(checkpoint__line=member.line_id) | Q(checkpoint=member.line.start_id)
    ApiKey.objects.filter(hidden, user=user).exclude(checkpoint__line=SHARED).update(checkpoint=None)
    member.delete()


@transaction.atomic
def retire(line: Line) -> None:
    """Its members go back to the shared line, its runs end, and it learns no more; its checkpoints are kept. Raises
    LineRefused."""
    locked = Line.objects.select_for_update().get(pk=line.pk)
    if locked.is_shared:
        raise LineRefused(_("The shared line answers everybody who has no other: it cannot be retired."))
    for member in locked.members.select_related("user"):
        leave(member.user)
    for run in locked.runs.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)):
        with suppress(IllegalMove):  # it has just ended
            runs.cancel(run)
    pooling.drop(locked.samples.all(), RETIRED, **NOTHING)
    Line.objects.filter(pk=locked.pk, retired_at=None).update(retired_at=timezone.now())
    line.refresh_from_db()


@transaction.atomic
def pool(user: User, *, may: bool) -> int:
    """Let what this person gives from now on teach the shared line as well, or no more: then what waits there is put
    away. Returns how many that were. Raises LineRefused for a person who has no line of their own."""
    _lock(user)
    member = Member.objects.select_for_update().filter(user=user).first()
    if member is None:
        raise LineRefused(
            _("The shared model answers you, so what you give teaches it. Privacy says how to keep it out.")
        )
    member.pools = may
    member.save(update_fields=["pools"])
    return 0 if may else _take_back(user)


def line_of(user: User) -> Line:
    """Which line answers this person."""
    lines = Line.objects.filter(Q(members__user=user) | Q(name=SHARED))  # the shared one has no members
    return max(lines, key=lambda one: not one.is_shared)


def pooled(user: User) -> QuerySet[Sample]:
    """What of this person's went into the shared line beside their own."""
    turns = Turn.objects.filter(session__user=user).values("pk")
    return Sample.objects.filter(origin__in=turns, line=SHARED, judgement=None, first_judgement=None)


def _take_back(user: User) -> int:
    rows = pooled(user)
    rows.filter(status=Sample.Status.CLAIMED).update(drop_reason=TAKEN_BACK)
    learned = rows.filter(status=Sample.Status.TRAINED, drop_reason="")
    pks = list(learned.values_list("pk", flat=True))
    taken = Sample.objects.filter(pk__in=pks)
    taken.update(drop_reason=TAKEN_BACK, **NOTHING)
    taints.mark(taken)
    return pooling.drop(rows, TAKEN_BACK, **NOTHING)


def _made_of(user: User) -> QuerySet[Sample]:
    """The samples that this person's verdicts made."""
    return Sample.objects.filter(judgement__turn__session__user=user)


def _lock(user: User) -> None:
    """One change of a person's line at a time; a verdict that is being written is either seen here, or sees this."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    deletion.lock_sessions(list(Session.objects.filter(user=user).values_list("pk", flat=True)))
