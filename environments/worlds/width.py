"""How much is done at once: less while Talkback is short of time, more again when it answers."""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from types import TracebackType

SLOW_S = 60.0
"""A reply that takes longer waited behind others: fewer at once have each of them sooner, and leases in time."""


class Width:
    """A number of places. It is halved when Talkback asks for a pause (429, 5xx), does not answer, or is slow, and
    grows by one for as many answers in time as there are places."""

    def __init__(self, most: int) -> None:
        self.most = self.now = max(1, most)
        self._narrowed_at = -1.0
        self.replies = 0
        """That came, in time or not."""
        self._in_time = 0
        self._rooms: list[Room] = []

    def room(self) -> Room:
        """A thing of which no more than `now` are held at once."""
        self._rooms.append(room := Room(self))
        return room

    def press(self, sent_at: float) -> None:
        """A request that was sent then had to wait. Those that were sent before the last halving say nothing new."""
        if sent_at > self._narrowed_at:
            self.now, self._in_time, self._narrowed_at = max(1, self.now // 2), 0, monotonic()

    def answered(self, sent_at: float) -> None:
        """A reply came, to a request that was sent then."""
        self.replies += 1
        if monotonic() - sent_at > SLOW_S:
            self.press(sent_at)
            return
        self._in_time += 1
        if self._in_time >= self.now < self.most:
            self.now, self._in_time = self.now + 1, 0
            for room in self._rooms:
                room.let_in()


class Room:
    """Holds as many as the width allows, and lets in those that wait in the order in which they came."""

    def __init__(self, width: Width) -> None:
        self.width, self.held = width, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def let_in(self) -> None:
        while self._waiting and self.held < self.width.now:
            turn = self._waiting.popleft()
            if not turn.done():
                self.held += 1
                turn.set_result(None)

    async def __aenter__(self) -> None:
        if not self._waiting and self.held < self.width.now:
            self.held += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # let in, and called off before it could enter
                await self.__aexit__(None, None, None)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.held -= 1
        self.let_in()
