"""Slow down guessing: count failures of a name or an address, and make the next attempt wait, longer each time.

An attempt is counted before its answer is known, so of many at once no more get through than one after the other would.
Counts are kept in Redis, by all web processes together. While Redis is away each process counts in its own memory, for
MOST_NAMES names at most: the brake holds, for as many more guesses as there are processes.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from time import monotonic, time
from typing import TypeVar

import redis

log = logging.getLogger(__name__)

PATIENCE_S = 0.25
"""How long an attempt waits for Redis, which answers in well under a millisecond."""

PAUSE_S = 5.0
"""How long Redis is not asked again after it failed to answer."""

MOST_NAMES = 10_000
"""Names that are counted in memory; the one that was touched longest ago makes room."""


@dataclass(frozen=True)
class Rule:
    """How long attempts wait. After `free` failures each further one waits `first_s` seconds, then twice as long each
    time, and at most `most_s`. A count is forgotten `forget_s` seconds after the last failure.

    >>> [Rule(free=3, first_s=30, most_s=100, forget_s=3600).wait_s(failures) for failures in (2, 3, 4, 5, 99)]
    [0.0, 30.0, 60.0, 100.0, 100.0]
    """

    free: int
    first_s: float
    most_s: float
    forget_s: float

    def wait_s(self, failures: int) -> float:
        if failures < self.free:
            return 0.0
        return float(min(self.most_s, self.first_s * 2 ** min(failures - self.free, 30)))


@dataclass(frozen=True)
class Count:
    """The failures of one name, and until when (Unix seconds) its next attempt waits."""

    failures: int = 0
    until: float = 0.0

    @classmethod
    def parse(cls, kept: bytes | str | None) -> Count:
        if kept is None:
            return cls()
        failures, _, until = (kept if isinstance(kept, str) else kept.decode()).partition(" ")
        return cls(int(failures), float(until))

    def __str__(self) -> str:
        return f"{self.failures} {self.until:.3f}"


@dataclass(frozen=True)
class Counted:
    """The result of an attempt: the seconds that it must wait, or 0, and how long the next one waits if it fails."""

    wait_s: float
    next_wait_s: float
    after: Mapping[str, Count] = field(default_factory=dict, compare=False)
    """What it made of the counts, by key."""


Answer = TypeVar("Answer")
Step = Callable[[Mapping[str, Count]], tuple[Answer, dict[str, Count]]]
"""What follows from the counts as they are: an answer, and the counts that change."""


class Brake:
    """Count failures of one kind of guess; two kinds may have the same names."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._memory: OrderedDict[str, tuple[Count, float]] = OrderedDict()
        self._lock = Lock()
        self._away_until = -math.inf

    def count(self, url: str, rules: Mapping[str, Rule]) -> Counted:
        """Count one attempt under each name, as a failure until `forgive` is told otherwise. Where one of them must
        wait, nothing is counted."""
        named = {self._key(name): rule for name, rule in rules.items()}

        def counted(before: Mapping[str, Count]) -> tuple[Counted, dict[str, Count]]:
            now = time()
            waits = max((count.until - now for count in before.values()), default=0.0)
            if waits > 0:
                return Counted(waits, waits), {}
            failures = {key: count.failures + 1 for key, count in before.items()}
            next_s = {key: rule.wait_s(failures[key]) for key, rule in named.items()}
            after = {key: Count(failures[key], round(now + next_s[key], 3) if next_s[key] else 0.0) for key in named}
            return Counted(0.0, max(next_s.values(), default=0.0), after), after

        return self._change(url, named, counted)

    def forgive(self, url: str, rules: Mapping[str, Rule], counted: Counted, *, forget: str = "") -> None:
        """Take an attempt that did not fail off each name's count, and the wait with it that it alone brought; all of
        the count that `forget` names. `counted`: what `count` said of it."""
        named = {self._key(name): rule for name, rule in rules.items()}
        forgotten = self._key(forget) if forget else ""

        def without(key: str, count: Count) -> Count:
            failures = max(0, count.failures - 1)
            is_own = key in counted.after and count.until == counted.after[key].until
            return Count(failures, count.until if named[key].wait_s(failures) and not is_own else 0.0)

        def forgiven(before: Mapping[str, Count]) -> tuple[None, dict[str, Count]]:
            return None, {key: Count() if key == forgotten else without(key, count) for key, count in before.items()}

        self._change(url, named, forgiven)

    def _key(self, name: str) -> str:
        """Redis learns no names: they are what people typed."""
        return f"talkback:brake:{self._kind}:{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}"

    def _change(self, url: str, rules: Mapping[str, Rule], step: Step[Answer]) -> Answer:
        """Read the counts, and keep what `step` makes of them, with nothing in between."""
        if monotonic() >= self._away_until:
            try:
                answer = _change_in_redis(_client(url), rules, step)
            except redis.RedisError as error:
                if self._away_until == -math.inf:
                    log.warning("%s: each process counts failures alone while Redis is away: %s", self._kind, error)
                self._away_until = monotonic() + PAUSE_S
            else:
                if self._away_until > -math.inf:
                    self._away_until = -math.inf
                    log.info("%s: failures are counted in Redis again", self._kind)
                return answer
        return self._change_in_memory(rules, step)

    def _change_in_memory(self, rules: Mapping[str, Rule], step: Step[Answer]) -> Answer:
        with self._lock:
            now = monotonic()
            kept = {key: self._memory.get(key, (Count(), 0.0)) for key in rules}
            answer, after = step({key: count if now < ends else Count() for key, (count, ends) in kept.items()})
            for key, count in after.items():
                self._memory[key] = count, now + rules[key].forget_s
                self._memory.move_to_end(key)
            while len(self._memory) > MOST_NAMES:
                self._memory.popitem(last=False)
            return answer


def _change_in_redis(client: redis.Redis, rules: Mapping[str, Rule], step: Step[Answer]) -> Answer:
    """Raises redis.RedisError. Of two that change one count at once, the second begins again."""
    keys = list(rules)
    with client.pipeline() as pipe:
        while True:
            try:
                pipe.watch(*keys)
                kept = pipe.mget(keys)
                answer, after = step({key: Count.parse(value) for key, value in zip(keys, kept, strict=True)})
                if not after:
                    return answer
                pipe.multi()
                for key, count in after.items():
                    if count.failures:
                        pipe.set(key, str(count), px=round(1000 * rules[key].forget_s))
                    else:
                        pipe.delete(key)
                pipe.execute()
                return answer
            except redis.WatchError:
                continue


@lru_cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S)
