"""One at a time: who is at work on what, across threads, processes and machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from judge.models import Sitting


@contextmanager
def sitting(matter: str, for_s: float) -> Iterator[bool]:
    """Take the seat of `matter` for at most `for_s` seconds. False: somebody else sits there, leave it to them.

    The seat is given up at the end of the block, and by itself when `for_s` has passed (the worker died).
    """
    now = timezone.now()
    until = now + timedelta(seconds=for_s)
    with transaction.atomic():
        if not (taken := bool(Sitting.objects.filter(matter=matter, until__lt=now).update(until=until))):
            _, taken = Sitting.objects.get_or_create(matter=matter, defaults={"until": until})
    try:
        yield taken
    finally:
        if taken:
            Sitting.objects.filter(matter=matter, until=until).delete()
