"""Slow down guesses at API keys: an address that sends one unknown key after another waits.

A client that sends the same wrong key again guesses nothing: it counts once. Keys that have opened something lately are
looked at whatever their address sends, so that a guesser locks out none of those that share it.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from django.conf import settings

from chat.limits import RateLimited
from core.brake import Brake, Rule
from core.network.addresses import network, readable

log = logging.getLogger(__name__)

RULE = Rule(free=20, first_s=10, most_s=60, forget_s=600)
MOST = 10_000
"""Keys and addresses that this process remembers of each sort."""

brake = Brake("API keys")
Value = TypeVar("Value")


class Lately(Generic[Value]):
    """Keep the last MOST entries, by name."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, Value] = OrderedDict()
        self._lock = Lock()

    def put(self, name: object, value: Value) -> bool:
        """Whether the name is a new one."""
        with self._lock:
            is_new = name not in self._entries
            self._entries[name] = value
            self._entries.move_to_end(name)
            if len(self._entries) > MOST:
                self._entries.popitem(last=False)
            return is_new

    def get(self, name: object) -> Value | None:
        return self._entries.get(name)


# By the hash that Python's own dictionaries use, whose seed is another one in each process: no secret is kept.
opened: Lately[bool] = Lately()
wrong: Lately[bool] = Lately()
locked: Lately[float] = Lately()
"""Until when (monotonic seconds) keys from a network are not looked at."""


def note_good(secrets: Iterable[str]) -> None:
    """One of these opened something."""
    for secret in secrets:
        opened.put(hash(secret), True)


def check(address: str, secrets: Sequence[str]) -> None:
    """Raises RateLimited where too many unknown keys came from this address, and these may be the next. Asks nothing
    of Redis or the database: it is asked before every request."""
    wait_s = (locked.get(network(address)) or -math.inf) - monotonic()
    if wait_s > 0 and secrets and not any(opened.get(hash(secret)) for secret in secrets):
        raise too_many(wait_s)


def note_unknown(address: str, secrets: Iterable[str]) -> None:
    """None of these is a key. Raises RateLimited where another process has locked the address meanwhile."""
    place = network(address)
    news = [secret for secret in secrets if wrong.put(hash(secret), True)]
    if not news:
        return
    counted = brake.count(settings.REDIS_URL, {place: RULE})
    if counted.wait_s or counted.next_wait_s:
        locked.put(place, monotonic() + (counted.wait_s or counted.next_wait_s))
    if counted.wait_s:
        raise too_many(counted.wait_s)
    more = f": the next is looked at in {counted.next_wait_s:.0f} s" if counted.next_wait_s else ""
    log.info("an unknown API key from %s%s", readable(address), more)


def too_many(wait_s: float) -> RateLimited:
    return RateLimited(
        f"Many unknown API keys came from your address: wait {math.ceil(wait_s)} s. If yours is not known either, make "
        "one on the page /connect/.",
        wait_s,
    )
