"""Everything of a person's goes, in slices: what they said, what they said of replies, and what was made of it.

Each slice is one transaction that deletes and counts, so a worker may die at any line: what is left is still there to
be found, and nothing is counted twice. What is begun after the wish stays.
"""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.composing.defaults import ChatDefaults
from chat.composing.prompts import SavedPrompt
from chat.listing.folders import Folder
from chat.models import Session, Turn
from feedback import importing
from feedback.models import Feedback
from judge.hints import deletion
from judge.samples.origins import made_of
from privacy.models import Erasure
from training.models import Sample
from training.provenance import taints

SLICE = 50
"""Turns that go in one transaction: a person who talks meanwhile waits for it, and memory holds their conversations."""

AT_ONCE = 4
"""Slices that the request itself does: a person with few conversations sees them gone on the next page."""


@transaction.atomic
def ask(user: User, *, revokes_keys: bool) -> Erasure:
    """Note that all of this person's conversations are to go; the same wish while it stands. Their keys are revoked
    first where they say so, and nothing more comes through them."""
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    standing = Erasure.objects.filter(user=user, status=Erasure.Status.ASKED).first()
    keys = 0
    if revokes_keys:
        keys = ApiKey.objects.of_people().filter(user=user, revoked_at=None).update(revoked_at=timezone.now())
    importing.drop_all(user)
    Folder.objects.filter(user=user).delete()
    if standing is not None:
        return standing
    return Erasure.objects.create(
        user=user, total=Session.objects.filter(user=user).count(), gone={"keys": keys} if keys else {}
    )


def go_on(erasure: Erasure, *, slices: int | None = None) -> Erasure:
    """Delete so many slices, or all that is left. Safe to call at any time, and from two workers.

    Where the account goes with its last conversation, its erasure's row goes too: then what is returned is done."""
    while erasure.status == Erasure.Status.ASKED and slices != 0:
        _slice(erasure)
        try:
            erasure.refresh_from_db()
        except Erasure.DoesNotExist:
            erasure.status = Erasure.Status.DONE
        slices = None if slices is None else slices - 1
    return erasure


@transaction.atomic
def _slice(erasure: Erasure) -> None:
    """The next turns of one conversation, and the conversation itself once none is left in it."""
    locked = Erasure.objects.select_for_update().filter(pk=erasure.pk).first()
    if locked is None or locked.status != Erasure.Status.ASKED:
        return
    theirs = Session.objects.filter(user=locked.user_id, created_at__lte=locked.asked_at)
    session = theirs.order_by("created_at", "pk").first()
    if session is None:
        ChatDefaults.objects.filter(user=locked.user_id).delete()
        SavedPrompt.objects.filter(user=locked.user_id).delete()
        locked.move(Erasure.Status.DONE, done_at=timezone.now())
        return
    deletion.lock_sessions([session.pk])
    newest = list(session.turns.order_by("-position").values_list("pk", flat=True)[:SLICE])
    gone = _counts(newest)
    turns = Turn.objects.filter(pk__in=newest)
    tainted = _tainted_by(newest)
    turns.delete()
    if not session.turns.exists():
        session.delete()
        gone["conversations"] = 1
    locked.gone = {name: locked.gone.get(name, 0) + gone.get(name, 0) for name in {*locked.gone, *gone}}
    locked.checkpoints = sorted({*locked.checkpoints, *tainted})
    locked.save(update_fields=["gone", "checkpoints"])


def _counts(turns: list[UUID]) -> dict[str, int]:
    """What goes with these turns."""
    statuses = list(_made(turns).values_list("pk", "status").distinct())
    learned = sum(status == Sample.Status.TRAINED for _, status in statuses)
    said = Feedback.objects.filter(turn__in=turns).count()
    return {"replies": len(turns), "feedback": said, "samples": len(statuses) - learned, "learned": learned}


def _tainted_by(turns: list[UUID]) -> list[int]:
    """Numbers of the checkpoints that learned from these turns, and what was trained on from there."""
    learned = _made(turns).filter(status=Sample.Status.TRAINED)
    return [one.number for one in taints.learned_in(set(learned.values_list("run", flat=True)) - {None})]


def _made(turns: list[UUID]) -> QuerySet[Sample]:
    """The samples of these turns, in whichever line."""
    return Sample.objects.filter(made_of(turns)).order_by()
