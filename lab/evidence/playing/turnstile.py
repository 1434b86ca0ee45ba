"""Who asks next, where many want to ask at once and only so many may."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

Rank = tuple[int, ...]


class Turnstile:
    """At most `room` inside; of those who wait, the lowest rank first, and of one rank the first to come.

    So one arm's sessions are through before the next arm's begin, and the learner has work early: with turns for all,
    every batch would be full at the same moment.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._number = count()
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def inside(self, rank: Rank) -> AsyncGenerator[None, None]:
        await self._enter(rank)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, rank: Rank) -> None:
        if self._room > 0 and not self._waiting:
            self._room -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._number), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let in, and gone before it knew
                self._leave()
            raise

    def _leave(self) -> None:
        self._room += 1
        while self._waiting and self._room > 0:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                self._room -= 1
