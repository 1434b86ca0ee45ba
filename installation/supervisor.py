"""supervisord, whose logs may fail: a full disk costs lines, and no process.

    python -m installation.supervisor --configuration FILE

The original ends when its own log cannot be written, reads no more of a process whose log failed once, which then
stands still as soon as its pipe is full, and starts none whose log cannot be opened.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from itertools import pairwise
from typing import Any

from supervisor import loggers, supervisord

AGAIN_S = 1.0
"""How long a log that could not be opened is left alone."""


class Log(loggers.RotatingFileHandler):  # type: ignore[misc]  # it has no types
    """A file that is written to while that works: what does not fit is dropped, and the next line is tried anew."""

    def __init__(self, filename: str, mode: str = "ab", maxBytes: int = 0, backupCount: int = 0) -> None:
        loggers.Handler.__init__(self)
        self.baseFilename, self.mode, self.maxBytes, self.backupCount = filename, "ab", maxBytes, backupCount
        self.stream: io.RawIOBase | None = None
        self.tried_at = -AGAIN_S
        self.reopen()

    def emit(self, record: Any) -> None:
        if self.stream is None and time.monotonic() - self.tried_at > AGAIN_S:
            self.reopen()
        if self.stream is None:
            return
        loggers.Handler.emit(self, record)
        if self.maxBytes and self.stream.tell() >= self.maxBytes:
            self.doRollover()

    def handleError(self) -> None:
        """Nothing: where a line is lost, so would be what is said of it."""

    def reopen(self) -> None:
        self.close()
        self.tried_at = time.monotonic()
        with contextlib.suppress(OSError):
            self.stream = open(self.baseFilename, "ab", buffering=0)  # noqa: SIM115  nothing waits in a buffer
        self.closed = self.stream is None

    def close(self) -> None:
        if self.stream is not None:
            with contextlib.suppress(OSError):
                self.stream.close()
        self.stream, self.closed = None, True

    def doRollover(self) -> None:
        self.close()
        names = [self.baseFilename, *(f"{self.baseFilename}.{number}" for number in range(1, self.backupCount + 1))]
        for older, newer in reversed(list(pairwise(names))):
            with contextlib.suppress(OSError):
                os.replace(older, newer)
        if not self.backupCount:
            self.remove()
        self.reopen()

    def remove(self) -> None:
        self.close()
        with contextlib.suppress(OSError):
            os.remove(self.baseFilename)


def main() -> None:
    loggers.RotatingFileHandler = loggers.FileHandler = Log
    supervisord.main(sys.argv[1:])


if __name__ == "__main__":
    main()
