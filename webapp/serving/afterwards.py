"""Tell pages and workers of the rows that the API moved, a moment later and together."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from django.db.models import Model

from core import threads
from core.states import moved
from webapp import live_pages

log = logging.getLogger(__name__)

Move = tuple[type[Model], object, str]

WINDOW_S = 0.2
"""How long moves are gathered: no reader sees the difference, and a board is then drawn once for many of them."""

_all: WeakKeyDictionary[asyncio.AbstractEventLoop, Afterwards] = WeakKeyDictionary()


class Afterwards:
    """Collect the moves of one event loop that are yet to be told."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._moves: list[Move] = []
        self._telling: asyncio.Task[None] | None = None

    @classmethod
    def of_this_loop(cls) -> Afterwards:
        loop = asyncio.get_running_loop()
        if loop not in _all:
            _all[loop] = cls(loop)
        return _all[loop]

    def note(self, model: type[Model], pk: object, status: str) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._gather, (model, pk, status))

    async def told(self) -> None:
        """Wait until everything noted so far was told."""
        await asyncio.sleep(0)
        while self._telling is not None and not self._telling.done():
            await asyncio.wait({self._telling})

    def _gather(self, move: Move) -> None:
        self._moves.append(move)
        if self._telling is None or self._telling.done():
            # A fresh context: the request's own would have these moves told later once more.
            self._telling = self._loop.create_task(self._tell(), context=contextvars.Context())

    async def _tell(self) -> None:
        while self._moves:
            await asyncio.sleep(WINDOW_S)
            moves, self._moves = self._moves, []
            try:
                await self._loop.run_in_executor(errands(), tell, moves)
            except Exception:  # whatever it was: rows are the truth, and the sweep finds what is due
                log.exception("no listener was told of %d moves", len(moves))


@lru_cache
def errands() -> threads.Threads:
    """A thread of its own: a Redis that is away makes only this wait."""
    return threads.Threads(1)


@lru_cache
def runner() -> asyncio.Runner:
    """The event loop of that thread, with a connection to Redis that it keeps: the replies' loop has better to do."""
    return asyncio.Runner()


def tell(moves: Sequence[Move]) -> None:
    with live_pages.together(lambda events: runner().run(live_pages.send(events))):
        for model, pk, status in moves:
            moved.send(sender=model, pk=pk, status=status)
