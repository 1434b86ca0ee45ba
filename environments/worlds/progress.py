"""Say how far a night is: one line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import asyncio
from time import monotonic
from types import TracebackType
from typing import Self, TextIO

from environments.worlds.played import Played
from environments.worlds.width import Width

TERMINAL_S, FILE_S = 0.2, 10.0
"""Between two lines."""
SAME_S = 60.0
"""Between two lines that say the same of a Talkback that does not answer."""


class Progress:
    """Within `async with` it also speaks where no attempt has ended for a while: the first may take minutes."""

    def __init__(self, of: int, width: Width, out: TextIO) -> None:
        self._of, self._width, self._out = of, width, out
        self._began, self._said_at = monotonic(), 0.0
        self._done = self._counted = self._solved = self._tokens = 0
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._say()
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait([self._ticking])
            if error is None and not self._ticking.cancelled():
                self._ticking.result()  # raises what ended it
        if self._out.isatty() and self._said_at:
            self._out.write("\n")
            self._out.flush()

    def note(self, played: Played) -> None:
        self._done += 1
        self._counted += played.counts
        self._solved += played.status == "solved"
        self._tokens += played.completion_tokens
        if monotonic() - self._said_at >= self._pause_s or self._done == self._of:
            self._say()

    @property
    def line(self) -> str:
        rate = self._tokens / max(0.001, monotonic() - self._began)
        narrow = f", {self._width.now} at once" if self._width.now < self._width.most else ""
        solved = f"{self._solved} of {self._counted} solved"
        return (
            f"{self._done} of {self._of} attempts, {solved}, {self._width.replies} replies, {rate:.0f} tokens/s{narrow}"
        )

    @property
    def _pause_s(self) -> float:
        return TERMINAL_S if self._out.isatty() else FILE_S

    def _say(self) -> None:
        self._said_at = monotonic()
        self._out.write(f"\r\x1b[K{self.line}" if self._out.isatty() else f"{self.line}\n")
        self._out.flush()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._pause_s)
            if monotonic() - self._said_at >= self._pause_s:
                self._say()


class Troubles:
    """Say what Talkback's answer waits for, as it is asked again: the same not more than once in SAME_S."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._last, self._said_at = out, "", 0.0

    def __call__(self, trouble: str) -> None:
        if trouble == self._last and monotonic() - self._said_at < SAME_S:
            return
        self._last, self._said_at = trouble, monotonic()
        self._out.write(f"\r\x1b[K{trouble}\n" if self._out.isatty() else f"{trouble}\n")
        self._out.flush()
