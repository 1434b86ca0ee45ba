"""Places for servers' programs: so many run for one process at the same time, and the next one waits for an end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from core.errors import TalkbackError

MOST = 32
"""Programs at the same time: each is a process of some ten to a hundred MB, whatever it is."""

LOOK_S = 0.1
"""How often one that waits within an event loop looks."""


class NoPlace(TalkbackError):
    """None of the programs that run ended in time."""

    code, status, retryable = "too_many_programs", 503, True


class Places:
    """The places of one process, for all its threads and event loops."""

    def __init__(self, most: int) -> None:
        self._most, self._free = most, threading.BoundedSemaphore(most)

    def take(self, wait_s: float) -> None:
        """Wait in this thread for a place, which is then to be given back. Raises NoPlace."""
        if not self._free.acquire(timeout=wait_s):
            raise self._none(wait_s)

    def give_back(self) -> None:
        self._free.release()

    @asynccontextmanager
    async def held(self, wait_s: float) -> AsyncIterator[None]:
        """A place for as long as the block lasts. Raises NoPlace."""
        late = anyio.current_time() + wait_s
        while not self._free.acquire(blocking=False):
            if anyio.current_time() >= late:
                raise self._none(wait_s)
            await anyio.sleep(LOOK_S)
        try:
            yield
        finally:
            self.give_back()

    def _none(self, wait_s: float) -> NoPlace:
        return NoPlace(
            f"{self._most} programs of tools run already, as many as may at the same time, and none ended within "
            f"{wait_s:g} s. Try again."
        )


places = Places(MOST)
"""Those of this process."""
