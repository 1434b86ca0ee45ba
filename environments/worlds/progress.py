"""Say how far a night is: one line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from time import monotonic
from typing import TextIO

from environments.worlds.played import Played
from environments.worlds.width import Width

TERMINAL_S, FILE_S = 0.2, 10.0
"""Between two lines."""


class Progress:
    def __init__(self, of: int, width: Width, out: TextIO) -> None:
        self._of, self._width, self._out = of, width, out
        self._began, self._said_at = monotonic(), 0.0
        self._done = self._counted = self._solved = self._tokens = 0

    def note(self, played: Played) -> None:
        self._done += 1
        self._counted += played.counts
        self._solved += played.status == "solved"
        self._tokens += played.completion_tokens
        is_terminal = self._out.isatty()
        if monotonic() - self._said_at >= (TERMINAL_S if is_terminal else FILE_S) or self._done == self._of:
            self._said_at = monotonic()
            self._out.write(f"\r\x1b[K{self.line}" if is_terminal else f"{self.line}\n")
            self._out.flush()

    def end(self) -> None:
        if self._out.isatty() and self._done:
            self._out.write("\n")
            self._out.flush()

    @property
    def line(self) -> str:
        rate = self._tokens / max(0.001, monotonic() - self._began)
        narrow = f", {self._width.now} at once" if self._width.now < self._width.most else ""
        solved = f"{self._solved} of {self._counted} solved"
        return f"{self._done} of {self._of} attempts, {solved}, {rate:.0f} tokens/s{narrow}"
