"""Find what happened that people want to hear of, and send each to whom it is for, once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from kombu.exceptions import OperationalError

from accounts.roles import people_who_may
from checkpoints import notices
from checkpoints.notice_rows import Notice
from training.models import Run
from webapp.console import board
from webapp.notifications import sending
from webapp.notifications.models import Announcement, Delivery, Event, Webhook, wanted_by
from webapp.notifications.tasks import deliver

log = logging.getLogger(__name__)

STUCK_S = 300
"""How long a stop of the loop is stuck before people hear of it: a worker that is started again is no news."""
FRESH = timedelta(days=1)
"""What is older is no news: a page shows it, and nothing is sent."""
KEPT = timedelta(days=30)
"""How long it is kept that something was announced."""
MOST = 50
"""How many deliveries one sweep sends."""


@dataclass(frozen=True)
class Happening:
    """Something that people may want to hear of. Of one key it is announced once."""

    event: Event
    key: str
    text: str
    path: str


def happenings() -> Iterator[Happening]:
    """What the rows say now."""
    now = timezone.now()
    for one in notices.waiting():
        text = f"{one} has learned and waits for a yes. Have a look at what changed."
        yield Happening(Event.CANDIDATE, f"candidate {one.pk}", text, reverse("console:checkpoint", args=[one.number]))
    for notice in notices.unread().filter(at__gt=now - FRESH):
        if event := event_of(notice):
            page = "console:storage" if event is Event.DISK else "console:notices"
            yield Happening(event, f"notice {notice.pk}", notice.text, reverse(page))
    failed = Run.objects.filter(status=Run.Status.FAILED, finished_at__gt=now - FRESH)
    for run in failed.only("pk", "error").order_by("pk"):
        text = f"Run {run.pk} failed, and nothing was learned. {run.error}".strip()
        yield Happening(Event.STUCK, f"run {run.pk}", text, reverse("console:run", args=[run.pk]))
    for stop in board.read().stuck:
        if stop.since and (now - stop.since).total_seconds() > STUCK_S:
            key = f"stuck {stop.key} {stop.since:%Y-%m-%dT%H:%M:%S}"
            yield Happening(Event.STUCK, key, f"Stuck: {stop.title}. {stop.sentence}", reverse("console:health"))


def event_of(notice: Notice) -> Event | None:
    """What event a notice is, by what it is about; None for one that pages alone show."""
    about = notice.key.partition(" ")[0]
    if about == "disk":
        return Event.DISK
    went_back = about == "swap" or (about == "guard" and notice.level == Notice.Level.ERROR)
    return Event.ROLLED_BACK if went_back else None


def announce() -> int:
    """Announce what is new, and send again what is due. Returns how many messages were made."""
    known = set(Announcement.objects.values_list("key", flat=True))
    made = sum(address(one) for one in list(happenings()) if one.key not in known)
    Announcement.objects.filter(at__lt=timezone.now() - KEPT).delete()
    for pk in sending.due().order_by("due_at").values_list("pk", flat=True)[:MOST]:
        nudge(pk)
    return made


@transaction.atomic
def address(happening: Happening) -> int:
    """Write down that this happened, with a message for each person and webhook that wants it."""
    said = {"event": happening.event, "text": happening.text, "path": happening.path}
    announced, is_new = Announcement.objects.get_or_create(key=happening.key, defaults=said)
    if not is_new:  # another process was quicker
        return 0
    hooks = [hook for hook in Webhook.objects.all() if happening.event in hook.events]
    people = people_who_may("notices").exclude(email="") if settings.EMAIL_HOST else ()
    found = [Delivery(announcement=announced, webhook=hook) for hook in hooks]
    found += [
        Delivery(announcement=announced, person=one) for one in people if happening.event in wanted_by(one, "email")
    ]
    return len(Delivery.objects.bulk_create(found))


def nudge(pk: UUID) -> None:
    """Have a worker try this delivery; with Redis away a later sweep does."""
    try:
        deliver.apply_async((str(pk),), retry=False, expires=60)
    except OperationalError as error:
        log.warning("delivery %s waits for the sweep: %s", pk, error)


def news(user: User) -> list[Announcement]:
    """What happened within the last day that this person wants to hear of in the browser, candidates left out: those
    are news as long as they wait."""
    wanted = wanted_by(user, "browser") - {Event.CANDIDATE}
    return list(Announcement.objects.filter(event__in=wanted, at__gt=timezone.now() - FRESH)[:20])
