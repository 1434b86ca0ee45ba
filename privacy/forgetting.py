"""Delete what was made of a conversation to learn from, together with the conversation."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model, Q
from django.db.models.signals import post_delete, pre_delete
from django.utils.translation import gettext_noop

from chat.api_keys import ApiKey
from chat.models import Session, Turn, deleting
from checkpoints.models import Checkpoint
from core.states import moved
from judge import off_record
from judge.hints import deletion
from judge.models import Hint, Judgement, Ruling
from privacy import membership
from training.models import Sample
from training.provenance import cleaning, taints

FORGOTTEN = gettext_noop("its chat was deleted")
"""The mark, as drop_reason, of a sample that goes as soon as no run holds it."""

WORDS_GONE = gettext_noop("it was taught with the words of a chat that was deleted")
"""The same of a sample whose own chat is still there."""


def lock(sender: type[Session], pk: UUID, **kwargs: Any) -> None:
    """Other chats may learn with the words of its hints: all are locked by number, before any turn is."""
    deletion.lock_sessions([pk])


def lock_account(sender: type[Model], origin: Any, using: str, **kwargs: Any) -> None:
    """An account goes, with all that hangs on it, in the cascade's order: its keys and then its chats are locked
    before any of it, as where one chat is deleted. The first turn or hint that is to go sees to it for all."""
    account = origin if isinstance(origin, User) else None
    if account is None:
        return
    # The same object may be deleted once more after this transaction was rolled back, and let go of what it held.
    begun = transaction.get_connection(using).atomic_blocks[0]
    if getattr(account, "_locked_in", None) is begun:
        return
    account._locked_in = begun  # type: ignore[attr-defined]
    list(ApiKey.objects.select_for_update().filter(user=account).order_by("pk").values_list("pk"))
    deletion.lock_sessions(list(Session.objects.filter(user=account).order_by().values_list("pk", flat=True)))


def forget(sender: type[Judgement], instance: Judgement, **kwargs: Any) -> None:
    """Delete the samples that wait, and empty those that were learned: a run's record keeps their number alone.

    A sample that a run is learning at this moment is marked, and goes when that run has ended.
    """
    pks = [pk for pk in (instance.sample_id, instance.learned_id) if pk]
    samples = Sample.objects.filter(Q(pk__in=pks) | Q(origin=instance.turn_id))
    samples.update(drop_reason=FORGOTTEN)  # first, so that a run that takes or leaves one meanwhile meets the mark
    off_record.emptied(samples)


def forget_later(sender: type[Sample], pk: int, status: str, **kwargs: Any) -> None:
    """A run has ended and let go of a sample whose chat was deleted, or taken off the record or back, meanwhile."""
    if status in (Sample.Status.READY, Sample.Status.TRAINED):
        off_record.emptied(Sample.objects.filter(pk=pk, drop_reason__in=MARKS))


MARKS = (FORGOTTEN, off_record.OFF_RECORD, membership.TAKEN_BACK)


def catch_up() -> None:
    """Forget what a worker that died had to: whatever is marked and no run holds. And count all taints anew."""
    rows = Sample.objects.filter(drop_reason__in=MARKS).exclude(status=Sample.Status.CLAIMED)
    off_record.emptied(rows.exclude(status=Sample.Status.TRAINED, response_ids=[]))
    taints.look()


def settle(sender: type[Checkpoint], pk: int, status: str, **kwargs: Any) -> None:
    """Other weights answer: which taints are out of the way is counted anew."""
    if status == Checkpoint.Status.LIVE:
        cleaning.settle()


def forget_rulings(sender: type[Turn], instance: Turn, **kwargs: Any) -> None:
    """The log keeps who decided what kind of thing, and when: not a word of what it was about."""
    Ruling.objects.filter(turn=instance).update(before={}, after={}, reason="")


def forget_words(sender: type[Hint], instance: Hint, **kwargs: Any) -> None:
    """A hint goes with its chat, and its words go wherever they went: out of the log, out of what other hints say of
    it, and out of the turns that were to learn with them. Those go back to their own words."""
    Ruling.objects.filter(hint=instance).exclude(verb=Ruling.Verb.NEVER_LEARN).update(before={}, after={}, reason="")
    followers = Hint.objects.filter(merged_into=instance).exclude(turn=instance.turn_id).values("turn")
    taught = Sample.objects.filter(origin__in=followers, status=Sample.Status.TRAINED, teacher_prompt_ids__isnull=False)
    pks = list(taught.values_list("pk", flat=True))
    Sample.objects.filter(pk__in=pks).update(drop_reason=WORDS_GONE, teacher_prompt_ids=None)
    taints.mark(Sample.objects.filter(pk__in=pks))
    deletion.forget(instance)
    number = str(instance.pk)
    beside = Q(before__others__has_key=number) | Q(after__others__has_key=number)
    same_person = Ruling.objects.filter(beside, turn__session__user=instance.turn.session.user_id)
    for ruling in same_person.select_for_update(of=("self",)).order_by("pk"):
        for told in (ruling.before, ruling.after):
            if (one := told.get("others", {}).get(number)) is not None:
                one.update(text="", waits_because="")
        Ruling.objects.filter(pk=ruling.pk).update(before=ruling.before, after=ruling.after)


def connect() -> None:
    deleting.connect(lock, sender=Session, dispatch_uid="forgetting")
    for first in (Turn, Hint):  # before theirs below
        pre_delete.connect(lock_account, sender=first, dispatch_uid="forgetting an account")
    post_delete.connect(forget, sender=Judgement, dispatch_uid="forgetting")
    pre_delete.connect(forget_rulings, sender=Turn, dispatch_uid="forgetting")
    pre_delete.connect(forget_words, sender=Hint, dispatch_uid="forgetting")
    moved.connect(forget_later, sender=Sample, dispatch_uid="forgetting")
    moved.connect(settle, sender=Checkpoint, dispatch_uid="forgetting")
