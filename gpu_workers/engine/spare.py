"""The spare is a second server that no person waits for: it serves the weights that the first does not at the time.

The exam reads a candidate there, and the judge and the teacher ask it for the base, while people are answered by what
is live on the first. Each caller says what for; it changes its weights in between as often as it takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

from gpu_workers.engine.connections import Connections
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.stamps import BASE
from gpu_workers.errors import AdapterMissing


class _Turn:
    """The work that one event loop has the spare do now."""

    def __init__(self) -> None:
        self.changed = asyncio.Condition()
        self.weights = ""
        self.asking = 0


class Spare:
    """Lend the second server in turns: a caller waits until no other of this process asks for other weights.

    Other processes are not waited for. Where one of them was quicker the answer's stamp says so, and asking again, as
    every task does, is the remedy.
    """

    def __init__(self, engine: Engine, base: str) -> None:
        """`base` is the folder of the model that the server was started with, as the server sees it."""
        self.engine = engine
        self._folders = {"": base}

        async def close(turn: _Turn) -> None:
            pass

        self._turns = Connections(_Turn, close)

    def know(self, name: str, folder: str | Path) -> None:
        """Where the full weights of this name lie."""
        self._folders[name] = str(folder)

    @asynccontextmanager
    async def serving(self, weights: str) -> AsyncGenerator[Engine, None]:
        """The server, with these full weights (empty: the base) for as long as the block lasts. Raises AdapterMissing
        for a name it was never told."""
        if (folder := self._folders.get(weights)) is None:
            raise AdapterMissing(f"The second engine does not know where {weights} lie.")
        turn = self._turns.client()
        async with turn.changed:
            await turn.changed.wait_for(lambda: not turn.asking or turn.weights == weights)
            if not turn.asking:
                if await self.engine.serving() != weights:
                    await self.engine.update_weights(folder, version=weights or BASE)
                turn.weights = weights
            turn.asking += 1
        try:
            yield self.engine
        finally:
            async with turn.changed:
                turn.asking -= 1
                turn.changed.notify_all()

    async def load_adapter(self, name: str, path: str) -> None:
        """Hold an adapter beside the base: as `Engine.load_adapter`."""
        async with self.serving("") as engine:
            await engine.load_adapter(name, path)

    def aclose(self) -> Awaitable[None]:
        """Close this event loop's connections."""
        return self.engine.aclose()
