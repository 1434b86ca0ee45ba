"""Tell which workers are alive: each leaves the time in Redis every two seconds, under the queue it serves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache

import redis
from django.conf import settings
from django.utils import timezone

QUEUES = ("judge", "learn")
LOST_S = 15
"""A worker that has said nothing for this long is not there."""


@lru_cache
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)


def beat(queues: Iterable[str]) -> None:
    """Say that a worker of these queues is alive. A Redis that is away is its own alarm, not this one's."""
    with suppress(redis.RedisError):
        _redis(settings.REDIS_URL).mset({f"talkback:alive:{queue}": time.time() for queue in queues})


def silences() -> dict[str, float | None]:
    """Seconds since a worker of each queue was last heard; None: never since Redis started. Raises RedisError, also
    where Redis answers and keeps nothing, as with a full disk: it says of no worker then what is so.

    A learner at work cannot beat, for it has one thread: its run's heartbeat counts as its own.
    """
    from training.models import Run

    store = _redis(settings.REDIS_URL)
    store.set("talkback:asked", time.time(), ex=60)
    spoken = store.mget([f"talkback:alive:{queue}" for queue in QUEUES])
    now = time.time()
    silence = {
        queue: None if at is None else max(0.0, now - float(at)) for queue, at in zip(QUEUES, spoken, strict=True)
    }
    recently = timezone.now() - timedelta(seconds=60)
    if Run.objects.filter(status=Run.Status.RUNNING, heartbeat_at__gt=recently).exists():
        silence["learn"] = 0.0
    return silence
