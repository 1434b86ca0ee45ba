"""Connections keep one pooled HTTP client for each event loop, between calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Client = TypeVar("Client")


class Connections(Generic[Client]):
    """Keep one pooled client an event loop. Those of loops that have ended are let go, with their sockets.

    A worker may start a new loop for every task, and a client of an old loop holds that loop alive: without this
    each task would leave a socket behind.
    """

    def __init__(
        self,
        make: Callable[[], Client],
        close: Callable[[Client], Awaitable[None]],
        forget: Callable[[Client], None] = lambda client: None,
    ) -> None:
        """`forget` is what is done to a client whose loop has ended, where `close` can no longer be awaited."""
        self._make, self._close, self._forget = make, close, forget
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def __del__(self) -> None:
        for loop, client in self._clients.items():
            if loop.is_closed():
                self._forget(client)

    def client(self) -> Client:
        """The running loop's client."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for ended in [other for other in list(self._clients) if other.is_closed()]:
                if (forgotten := self._clients.pop(ended, None)) is not None:
                    self._forget(forgotten)
            client = self._clients[loop] = self._make()
        return client

    async def close(self) -> None:
        """Close the running loop's client; the next call opens another."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close(client)
