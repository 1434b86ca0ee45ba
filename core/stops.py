"""Stop a worker in order: how long it may take, what may still be finished, and what is handed back.

Supervisors ask a process to end by a signal, and kill it STOP_S seconds later. A worker that was asked finishes what it
can in that time and hands the rest back, so that the next start goes on with it and no row waits for a person.
"""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from core.errors import TalkbackError

log = logging.getLogger(__name__)

USUAL_S = 30.0
"""From the signal to the kill, where STOP_S says nothing. docker/compose.yml has the same number."""

LEAST_S = 6.0
"""A stop in less time would leave none to hand anything back."""

Release = Callable[[], None]


class Stopped(TalkbackError):
    """The process was asked to stop: the work that raises this is to be handed back, and is no failure."""

    code, status, retryable = "stopped", 503, True


def limit_s(settings: Mapping[str, str] = os.environ) -> float:
    """STOP_S: seconds from the signal that asks a process to stop to the kill. Raises ValueError."""
    said = settings.get("STOP_S", "").strip()
    try:
        seconds = float(said or USUAL_S)
    except ValueError:
        seconds = math.nan
    if not LEAST_S <= seconds < math.inf:
        raise ValueError(f"STOP_S is {said!r}: it takes a number of seconds, {LEAST_S:g} or more.")
    return seconds


class Watch:
    """Watch for the stop that one process was asked for.

    A sixth of the limit, 5 s at most, lies between the end of work and the end of the process, and as much between that
    and the kill."""

    def __init__(self, limit_s: float, end: Callable[[int], None] = os._exit) -> None:
        """`end` takes the exit status and ends the process, whatever its other threads do."""
        self._limit_s, self._margin_s = limit_s, min(5.0, limit_s / 6)
        self._end = end
        self._asked_at = math.inf
        self._works_until = self._lasts_until = math.inf
        self._to_hand_back: dict[object, Release] = {}
        self._asks, self._asking = os.pipe()
        self._signals: frozenset[int] = frozenset()

    def listen(self, signals: Iterable[int]) -> None:
        """Take each of these signals as one `ask`, at once: Python calls handlers only between two of its own steps,
        and a step of learning may be one call that takes longer than there is time. They need a handler, which need
        not ask. Of the main thread only."""
        self._signals = frozenset(signals)
        os.set_blocking(self._asking, False)
        signal.set_wakeup_fd(self._asking)

    def start(self) -> None:
        """Watch from a thread of its own, so that a stop ends however long the main thread takes."""
        threading.Thread(target=self._run, name="stop", daemon=True).start()

    def ask(self) -> None:
        """Ask the process to stop; a second time: at once. Safe in a signal handler: it takes no lock."""
        self._note()
        os.write(self._asking, b"\0")

    def _note(self) -> None:
        now = time.monotonic()
        if self._asked_at == math.inf:
            self._asked_at = now
            self._works_until = now + self._limit_s - 2 * self._margin_s
            self._lasts_until = now + self._limit_s - self._margin_s
        else:
            self._works_until = min(self._works_until, now)
            self._lasts_until = min(self._lasts_until, now + self._margin_s)

    @property
    def is_asked(self) -> bool:
        return self._asked_at < math.inf

    def check(self, needs_s: float = 0.0) -> None:
        """Raises Stopped where a stop was asked for and work that needs `needs_s` seconds more would not end in time.
        Work that needs no more is let end."""
        if needs_s > 0 and time.monotonic() + needs_s > self._works_until:
            raise Stopped("The worker was asked to stop: what it did not finish is done after the next start.")

    @contextmanager
    def handing_back(self, release: Release) -> Iterator[None]:
        """Within this, `release` is what hands work back that is not done when the process ends itself. It is called
        from another thread, while the work may still go on: of the two, the row lets one win."""
        key = object()
        self._to_hand_back[key] = release
        try:
            yield
        finally:
            self._to_hand_back.pop(key, None)

    def _run(self) -> None:
        while (left_s := self._lasts_until - time.monotonic()) > 0:
            wait_s = None if left_s == math.inf else left_s
            if select.select([self._asks], [], [], wait_s)[0] and os.read(self._asks, 1)[0] in self._signals:
                self._note()  # a signal: its number is what the interpreter writes
        # A database that does not answer must not keep the process beyond its limit.
        handing = threading.Thread(target=self._hand_back, name="stop: handing back", daemon=True)
        handing.start()
        handing.join(0.8 * self._margin_s)
        self._end(0)

    def _hand_back(self) -> None:
        if self._to_hand_back:
            log.warning("The time to stop is over: what is at work is handed back.")
        for release in list(self._to_hand_back.values()):
            try:
                release()
            except Exception:  # one that fails is no reason to keep the others; a sweep finds it later
                log.exception("Work that was stopped could not be handed back.")


_watch: Watch | None = None


def watch() -> Watch:
    """Have this process stop in good order from now on. The same Watch however often it is called."""
    global _watch
    if _watch is None:
        _watch = Watch(limit_s())
        _watch.start()
    return _watch


def is_asked() -> bool:
    """Whether this process was asked to stop."""
    return _watch is not None and _watch.is_asked


def check(needs_s: float = 0.0) -> None:
    """As `Watch.check`; nothing happens in a process that is not watched."""
    if _watch is not None:
        _watch.check(needs_s)


@contextmanager
def handing_back(release: Release) -> Iterator[None]:
    """As `Watch.handing_back`; nothing is called in a process that is not watched."""
    if _watch is None:
        yield
        return
    with _watch.handing_back(release):
        yield
