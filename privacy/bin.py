"""Put chats into the bin, take them back, and delete for good what has lain there long enough.

A chat in the bin is found by no page, search, export or API (the managers of chat.models leave it out), and teaches
nothing from that moment: it is taken off the record, which lets go of votes, hints and samples that were made of it.
Taken back, it is on the record again if it was, and its replies are judged anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from chat import sessions
from chat.models import Session, Turn
from chat.search import keeping
from judge.hints import deletion
from privacy import consent
from privacy.consent import TakenBack

KEPT = timedelta(days=7)
"""How long a chat can be taken back."""

AT_ONCE = 20
"""How many one sweep deletes."""


@transaction.atomic
def discard(session: Session) -> TakenBack:
    """Put this chat into the bin; what was made of it is taken back. A reply that is being written ends."""
    deletion.lock_sessions([session.pk])
    held = sessions.locked(session.pk)
    if held.deleted_at is not None:
        return TakenBack()
    learned, taken = held.learns, consent.set_session(held, False)
    Session.objects.filter(pk=held.pk).update(deleted_at=timezone.now(), was_learning=learned)
    keeping.forget_session(held)
    held.turns.filter(status=Turn.Status.ANSWERING).update(finish_reason="abort")
    return taken


@transaction.atomic
def restore(session: Session) -> None:
    """Take this chat out of the bin, as it was put there. A client that went on under its name meanwhile keeps that
    name for what it began since."""
    deletion.lock_sessions([session.pk])
    held = sessions.locked(session.pk)
    if held.deleted_at is None:
        return
    namesakes = Session.objects.filter(key=held.key_id, external_id=held.external_id, deleted_at=None)
    is_taken = bool(held.key_id and held.external_id) and namesakes.exists()
    back = {"external_id": ""} if is_taken else {}
    Session.objects.filter(pk=held.pk).update(deleted_at=None, was_learning=False, **back)
    if held.was_learning:
        consent.set_session(held, True)
    held.deleted_at = None
    keeping.keep_session(held)


def empty(user: User) -> int:
    """Delete all of a person's bin for good. Returns how many chats went."""
    return sum(_delete(session, before=None) for session in Session.objects.in_bin(user))


def sweep() -> int:
    """Delete for good what has lain in the bin long enough, some at a time. Returns how many chats went."""
    before = timezone.now() - KEPT
    due = Session.objects.filter(deleted_at__lt=before).order_by("deleted_at")[:AT_ONCE]
    return sum(_delete(session, before=before) for session in list(due))


@transaction.atomic
def _delete(session: Session, before: datetime | None) -> int:
    """A chat that was taken back meanwhile stays."""
    deletion.lock_sessions([session.pk])
    rows = Session.objects.select_for_update().filter(pk=session.pk).exclude(deleted_at=None)
    held = (rows if before is None else rows.filter(deleted_at__lt=before)).first()
    if held is None:
        return 0
    held.delete()
    return 1


def days_left(session: Session) -> int:
    """Days until the sweep deletes this chat of the bin, the one that has begun counted whole."""
    assert session.deleted_at is not None
    return max(0, -((timezone.now() - session.deleted_at - KEPT) // timedelta(days=1)))
