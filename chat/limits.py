"""Limit an API key's use: requests a minute, counted in Redis, and tokens a day, counted in the database."""

from __future__ import annotations

import logging
import math
from datetime import datetime, timedelta
from functools import lru_cache
from time import monotonic

import redis
from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.spendings import Spending
from core.errors import TalkbackError
from core.moments import moment
from core.prepared import Prepared

log = logging.getLogger(__name__)

PATIENCE_S = 0.25
"""How long a request waits for Redis, which answers in well under a millisecond."""

PAUSE_S = 5.0
"""How long Redis is not asked again after it failed to answer."""

TAKE = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
local limit = tonumber(ARGV[1])
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local left = math.floor((60 - (full_at - now)) * limit / 60 + 1e-3)
if left < 1 then
  return {-1, tostring(full_at - now - 60 + 60 / limit)}
end
redis.call('SET', KEYS[1], string.format('%.6f', full_at + 60 / limit), 'PX', 60001)
return {left - 1, '0'}
"""
"""One request out of a bucket that holds `limit` of them and fills in a minute: what is left, or -1 and the seconds
until there is one. The bucket is kept as the moment at which it will be full."""


class RateLimited(TalkbackError):
    """The key asks for more than its limits allow, for now."""

    code, status = "rate_limit_exceeded", 429

    def __init__(self, sentence: str, retry_after_s: float, **headers: str) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s
        self.headers = {f"x-ratelimit-{name.replace('_', '-')}": value for name, value in headers.items()}
        """What OpenAI's clients look for beside the status."""


def check_rate(key: ApiKey) -> None:
    """Count one request. Raises RateLimited beyond the key's requests a minute, which costs it nothing.

    A key without this limit costs nothing. While Redis is away every request is let in.
    """
    key = key.payer
    limit = key.requests_per_minute
    if limit is None:
        return
    left, wait_s = take_from_bucket(f"talkback:rate:{key.digest[:32]}", limit)
    if left < 0:
        raise RateLimited(
            f"This API key may send {limit} requests a minute, and has: try again in {math.ceil(wait_s)} s.",
            wait_s,
            limit_requests=str(limit),
            remaining_requests="0",
            reset_requests=f"{wait_s:.3f}s",
        )


def check_spending(key: ApiKey) -> None:
    """Raises RateLimited once the key has spent its tokens of this day (UTC). A key without this limit costs nothing.

    A reply is counted when it ends, so those under way together may go beyond the limit by what they say.
    """
    key = key.payer
    limit = key.tokens_per_day
    if limit is None:
        return
    now = timezone.now()
    if tokens_spent(key, now) >= limit:
        midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time(), now.tzinfo)
        wait_s = (midnight - now).total_seconds()
        raise RateLimited(
            f"This API key may use {limit} tokens a day, and has: there are new ones from {moment(midnight)}.",
            wait_s,
            limit_tokens=str(limit),
            remaining_tokens="0",
            reset_tokens=f"{wait_s:.0f}s",
        )


def tokens_spent(key: ApiKey, at: datetime) -> int:
    """The tokens spent with this key on the day of `at`. They are counted only while the key has a limit."""
    return next(iter(Spending.objects.filter(key=key, day=at.date()).values_list("tokens", flat=True)), 0)


def spend(turn: Turn) -> None:
    """Count a reply that has just ended: what was read and what was said. To be called once an end."""
    key = METERED.first(turn.session_id)
    if key is None:
        return
    is_first = "." not in turn.completion_id  # further choices of one request share its prompt, as its usage says
    tokens = len(turn.response_ids) + (len(turn.prompt_ids) if is_first else 0)
    today, _ = Spending.objects.get_or_create(key=key, day=timezone.now().date())
    Spending.objects.filter(pk=today.pk).update(tokens=F("tokens") + tokens)


METERED: Prepared[ApiKey] = Prepared(
    lambda session: (
        ApiKey.objects.filter(
            Q(pk__in=Session.objects.filter(pk=session).order_by().values("key"))
            | Q(pk__in=Session.objects.filter(pk=session).order_by().values("key__parent")),
            tokens_per_day__isnull=False,
        )
        .only("pk")
        .order_by()
    )
)
"""The key of a session, or the one that asked for that, if its tokens are counted."""


_away_until = -math.inf


def take_from_bucket(bucket: str, limit: int) -> tuple[int, float]:
    """What TAKE says, in one call; as if nothing had been taken while Redis is away, which is logged once."""
    global _away_until
    was_away = _away_until > -math.inf
    if monotonic() < _away_until:
        return limit, 0.0
    try:
        left, wait_s = script(settings.REDIS_URL)(keys=[bucket], args=[limit])
    except redis.RedisError as error:
        _away_until = monotonic() + PAUSE_S
        if not was_away:
            log.warning("requests a minute are not counted while Redis is away: %s", error)
        return limit, 0.0
    if was_away:
        _away_until = -math.inf
        log.info("requests a minute are counted again")
    return int(left), float(wait_s)


@lru_cache
def script(url: str) -> redis.commands.core.Script:
    client = redis.Redis.from_url(url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S)
    return client.register_script(TAKE)
