"""Read an engine's stream a little ahead of the reply's reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Self

from django.utils.translation import gettext_noop

from gpu_workers.errors import EngineUnavailable
from gpu_workers.types import Delta

AHEAD = 64
"""Pieces that are read before the reader took them. A slow reader stops the reading, and so in the end the engine."""


class Flow:
    """Take a stream's pieces, all that have come at once; and a sign whenever nothing has come for a while.

    One task reads the stream; nothing else is made per piece. Leaving the `async with` closes the stream.
    """

    def __init__(self, stream: AsyncGenerator[Delta, None], silence_s: float) -> None:
        self._stream, self._silence_s = stream, silence_s
        self._come: list[Delta] = []
        self._over = False
        self._failure: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None  # who takes, for something to take
        self._room: asyncio.Future[None] | None = None  # who reads, for room
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        self._spoke = self._loop.time()
        self._timer = self._loop.call_later(self._silence_s, self._look)
        self._reading = self._loop.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def take(self) -> Delta | None:
        """What has come since the last time, as one piece; waits for it. None: nothing came for `silence_s`, or rouse()
        was called. Raises what the stream raised, and EngineUnavailable when it ended and more was wanted."""
        if not self._come and not self._over:
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        if self._come:
            come, self._come = self._come, []
            if self._room is not None and not self._room.done():
                self._room.set_result(None)
            self._spoke = self._loop.time()
            return join_deltas(come)
        if self._failure is not None:
            raise self._failure
        if self._over:
            raise EngineUnavailable(gettext_noop("The engine ended the reply before it was finished."))
        self._spoke = self._loop.time()
        return None

    def rouse(self) -> None:
        """Have take() return now."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _read(self) -> None:
        try:
            async with aclosing(self._stream) as stream:
                async for delta in stream:
                    self._come.append(delta)
                    self.rouse()
                    if len(self._come) >= AHEAD:
                        self._room = self._loop.create_future()
                        await self._room
                        self._room = None
        except Exception as failure:
            self._failure = failure
        finally:
            self._over = True
            self.rouse()

    def _look(self) -> None:
        """One timer for the whole stream: it sets itself anew, so that a piece costs it nothing."""
        silent_s = self._loop.time() - self._spoke
        if silent_s >= self._silence_s - 0.001:
            self.rouse()
            silent_s = 0.0
        self._timer = self._loop.call_later(self._silence_s - silent_s, self._look)


def join_deltas(deltas: Sequence[Delta]) -> Delta:
    """Pieces that follow each other as one.

    >>> both = join_deltas([Delta("a", (1,), (-1.0,)), Delta("b", (2,), (-2.0,), "stop")])
    >>> both.text, both.ids, both.logprobs, both.finish_reason
    ('ab', (1, 2), (-1.0, -2.0), 'stop')
    """
    if len(deltas) == 1:
        return deltas[0]
    return replace(
        deltas[-1],
        text="".join([delta.text for delta in deltas]),
        ids=tuple([one for delta in deltas for one in delta.ids]),
        logprobs=tuple([one for delta in deltas for one in delta.logprobs]),
        top=tuple([one for delta in deltas for one in delta.top]),
    )
