"""One at a time: who is at work on what, across threads, processes and machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from core import stops
from judge.models import Sitting


@dataclass
class Seat:
    """A worker's place at a matter, for a while."""

    matter: str
    until: datetime

    def renew(self, for_s: float) -> bool:
        """Keep it for another `for_s` seconds. False: the time had run out and another worker sits here."""
        until = timezone.now() + timedelta(seconds=for_s)
        kept = Sitting.objects.filter(matter=self.matter, until=self.until).update(until=until)
        self.until = until
        return bool(kept)

    def give_up(self) -> None:
        """Leave it to the next; nothing happens where another worker sits here by now."""
        Sitting.objects.filter(matter=self.matter, until=self.until).delete()


@contextmanager
def sitting(matter: str, for_s: float) -> Iterator[Seat | None]:
    """Take the seat of `matter` for at most `for_s` seconds. None: another worker sits there, leave it to that one.

    The seat is given up at the end of the block, when a worker that was asked to stop ends before it, and by itself
    when its time has passed (the worker died).
    """
    now = timezone.now()
    seat = Seat(matter, now + timedelta(seconds=for_s))
    with transaction.atomic():
        if not (taken := bool(Sitting.objects.filter(matter=matter, until__lt=now).update(until=seat.until))):
            _, taken = Sitting.objects.get_or_create(matter=matter, defaults={"until": seat.until})
    if not taken:
        yield None
        return
    with stops.handing_back(seat.give_up):
        try:
            yield seat
        finally:
            seat.give_up()
