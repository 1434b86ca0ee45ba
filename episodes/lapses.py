"""End attempts whose players have died: nothing is a judgement of the agent that only its player's end explains."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from chat.models import Turn
from core.moments import moment
from episodes import attempts
from episodes.attempts import Result
from episodes.models import Episode


def close_lapsed(most: int = 200) -> int:
    """Close episodes without a sign of life for as long as their lease. At most `most` looked at, the longest lapsed
    first. Returns how many were closed."""
    due = Episode.objects.filter(status=Episode.Status.PLAYING, lease_until__lt=timezone.now())
    return sum(_close(pk) for pk in list(due.order_by("lease_until").values_list("pk", flat=True)[:most]))


@transaction.atomic
def _close(pk: UUID) -> bool:
    now, episode = timezone.now(), attempts.locked(pk)
    if episode.status != Episode.Status.PLAYING or episode.lease_until >= now:
        return False
    seen = last_sign(episode, now)
    if seen is not None and (until := seen + timedelta(seconds=episode.lease_s)) >= now:
        Episode.objects.filter(pk=pk).update(lease_until=until)
        return False
    lapsed = f"Its player gave no sign of life for {episode.lease_s} s, until {moment(now)}."
    attempts.end(episode, Result(Episode.Ending.INFRA_ERROR, reason=lapsed))
    return True


def last_sign(episode: Episode, now: datetime) -> datetime | None:
    """When a reply was last asked for, or ended; now, while one is being written."""
    session = episode.session
    if session is None or not session.turns.exists():
        return None
    if session.turns.filter(status=Turn.Status.ANSWERING).exists():
        return now
    served: datetime | None = session.turns.aggregate(at=Max("served_at"))["at"]
    return max(session.active_at, served) if served else session.active_at
