"""Notices: what an operator must hear of that happened without one. They stand in the console until one has read
them."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone

from checkpoints.models import Checkpoint
from checkpoints.notice_rows import Notice


def tell(key: str, text: str, *, level: str = "warning", checkpoint: Checkpoint | None = None) -> Notice:
    """Have operators know. While an unread notice of this key stands, that one says this instead; once it was read, a
    new one is made.

    `key` says what it is about, "disk" or "guard shared"; empty: every telling is a notice of its own. `level` is one
    of info, warning and error: an unread error keeps its line's policy from approving anything.
    """
    if level not in Notice.Level.values:
        raise ValueError(f"A notice is {', '.join(Notice.Level.values)}, not {level!r}.")
    said = {"text": text, "level": level, "checkpoint": checkpoint}
    if not key:
        return Notice.objects.create(**said)
    return Notice.objects.update_or_create(key=key, read_at=None, defaults=said)[0]


def unread() -> QuerySet[Notice]:
    """Those that no operator has read, the newest first."""
    return Notice.objects.filter(read_at=None).select_related("checkpoint")


def read(notice: Notice, by: User) -> bool:
    """Note that this person has read it; False where another had already. Of two at once one is noted."""
    return bool(Notice.objects.filter(pk=notice.pk, read_at=None).update(read_at=timezone.now(), read_by=by))


def waiting() -> QuerySet[Checkpoint]:
    """Candidates that passed the gate and wait for a person, the oldest first. Nothing is kept: what was decided, or is
    on hold, waits no more."""
    passed = Checkpoint.objects.filter(status=Checkpoint.Status.PASSED, is_on_hold=False)
    return passed.select_related("line").order_by("number")


def alarms(line: str | None) -> QuerySet[Notice]:
    """The unread errors that are about this line, or about no checkpoint and so about every line."""
    return unread().filter(Q(checkpoint=None) | Q(checkpoint__line=line), level=Notice.Level.ERROR)
