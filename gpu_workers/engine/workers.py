"""The table of workers says which engines answer, what each has loaded, and which gets the next request. No network."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic, time

from gpu_workers.engine.stamps import weights_in

LOOK_S = 2.0
"""How long an engine that failed is left alone before it is looked at again; twice as long after each further time."""

LONGEST_LOOK_S = 60.0

BLOCK = 16
"""Tokens: prompts that begin alike are recognised in steps of this."""

REMEMBERED = 100_000
"""Blocks that are remembered, least recently used first to go: some 1.6 million tokens of prompts."""

STICKS = 0.5
"""A prompt goes where this share of it was read before ..."""

MOST_AHEAD = 4
"""... unless that engine has so many more requests than the idlest one: then reading it again is quicker."""


class State(StrEnum):
    UNKNOWN = "unknown"  # not looked at yet
    UP = "up"
    DOWN = "down"  # it gets nothing until it was looked at and, where it forgot something, repaired


@dataclass(eq=False)
class Worker:
    """The state of one engine when it last answered this process."""

    number: int
    """From 1, in the order of the settings: how sentences name it."""
    url: str
    state: State = State.UNKNOWN
    adapters: dict[str, str] = field(default_factory=dict)
    """Name to folder."""
    weights: str = ""
    """The full weights that it serves, by name; empty for the base."""
    seen_at: float | None = None
    """When it last answered, in seconds since 1970."""
    fault: str = ""
    """What went wrong last, as a sentence; kept after it came back."""
    failures: int = 0
    """In a row."""
    look_at: float = 0.0
    cannot: set[str] = field(default_factory=set)
    """Adapters that it could not load where others could: the next time the others go on without it."""
    busy: int = 0
    """Requests of this process that it is answering."""

    def __str__(self) -> str:
        return f"Engine {self.number}"

    def has(self, adapter: str | None) -> bool:
        """Whether it answers with this adapter, or these full weights, or else with the base."""
        wanted = weights_in(adapter or "")
        return self.weights == wanted and (not adapter or bool(wanted) or adapter in self.adapters)


class Prefixes:
    """Remember where prompts that begin alike were read last: an approximation of every engine's prefix cache."""

    def __init__(self, room: int = REMEMBERED) -> None:
        self._room = room
        self._places: OrderedDict[int, int] = OrderedDict()  # hash of all up to a block's end, to a worker's number
        self._lock = threading.Lock()

    def find(self, ids: Sequence[int], adapter: str | None) -> tuple[int | None, float]:
        """The worker that read the longest beginning of these ids, and which share of them that is."""
        number, length = None, 0
        with self._lock:
            for end, mark in _marks(ids, adapter):
                if (place := self._places.get(mark)) is None:
                    break
                number, length = place, end
        return number, length / len(ids) if ids else 0.0

    def keep(self, ids: Sequence[int], adapter: str | None, number: int) -> None:
        with self._lock:
            for _, mark in _marks(ids, adapter):
                self._places[mark] = number
                self._places.move_to_end(mark)
            while len(self._places) > self._room:
                self._places.popitem(last=False)


def _marks(ids: Sequence[int], adapter: str | None) -> Iterator[tuple[int, int]]:
    """(tokens so far, a hash of all of them) for each whole block; adapters never share what was read."""
    mark = hash(adapter)
    for end in range(BLOCK, len(ids) + 1, BLOCK):
        mark = hash((mark, *ids[end - BLOCK : end]))
        yield end, mark


class Table:
    """Keep the workers, and choose one for each request."""

    def __init__(self, urls: Sequence[str], *, fill: int = 0, clock: Callable[[], float] = monotonic) -> None:
        """`fill`: how many requests an engine has before the next one gets any; 0: they are spread."""
        self._fill = fill
        self.workers = [Worker(number, url.rstrip("/")) for number, url in enumerate(urls, 1)]
        self._clock = clock
        self._prefixes = Prefixes()

    @property
    def up(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.state is State.UP]

    def due(self) -> list[Worker]:
        """Those that are to be looked at now."""
        now = self._clock()
        return [worker for worker in self.workers if worker.state is not State.UP and worker.look_at <= now]

    def answered(self, worker: Worker, adapters: Mapping[str, str], weights: str) -> None:
        """It said what it holds, and is as it should be: it gets requests."""
        worker.adapters, worker.weights = dict(adapters), weights
        worker.state, worker.failures, worker.look_at, worker.seen_at = State.UP, 0, 0.0, time()

    def failed(self, worker: Worker, fault: str) -> None:
        """It gets nothing more until it was looked at again."""
        pause_s = min(LONGEST_LOOK_S, LOOK_S * 2**worker.failures)
        worker.state, worker.fault, worker.failures = State.DOWN, fault, min(worker.failures + 1, 10)
        worker.look_at = self._clock() + pause_s

    def choose(self, adapter: str | None, prompt_ids: Sequence[int], tried: Collection[Worker] = ()) -> Worker | None:
        """Who answers this: among those that are up and have the adapter or the full weights of that name, the first
        that is to be filled, else the one that has read this prompt's beginning, else the idlest. None: no worker
        can."""
        able = [worker for worker in self.up if worker not in tried and worker.has(adapter)]
        if not able:
            return None
        for worker in able:
            if worker.busy < self._fill:
                return worker
        idlest = min(able, key=lambda worker: (worker.busy, worker.number))
        number, share = self._prefixes.find(prompt_ids, adapter)
        if share >= STICKS:
            for worker in able:
                if worker.number == number and worker.busy <= idlest.busy + MOST_AHEAD:
                    return worker
        return idlest

    @contextmanager
    def answering(self, worker: Worker, adapter: str | None, prompt_ids: Sequence[int]) -> Iterator[None]:
        """While it lasts the worker has one request more; what it reads is remembered."""
        self._prefixes.keep(prompt_ids, adapter, worker.number)
        worker.busy += 1
        try:
            yield
        finally:
            worker.busy -= 1

    def has_read(self, worker: Worker, adapter: str | None, ids: Sequence[int]) -> None:
        """A prompt and its reply, which the next prompt of the same conversation will begin with."""
        self._prefixes.keep(ids, adapter, worker.number)
