"""End a command cleanly when the reader of its output leaves: `… | head`."""

from __future__ import annotations

import atexit
import io
import os
import signal
import sys
from contextlib import suppress
from typing import Any

GONE = 128 + signal.SIGPIPE
"""The status that a shell gives for a program which a pipe without a reader ended."""


def end_with_reader() -> None:
    """From here on, end without a word and with status GONE where nothing reads standard output any more.

    SIGPIPE itself, which would do so by default, would also end a process whose database or engine closes a connection.
    """
    if not isinstance(sys.stdout, io.TextIOWrapper):  # another caller has taken it already
        return
    said = sys.stdout
    said.flush()
    output = Output(said.fileno(), "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=said.encoding,
        errors=said.errors,
        line_buffering=said.line_buffering,
        write_through=said.write_through,
    )
    atexit.register(_end, sys.stdout, output)


class Output(io.FileIO):
    """A file that ends the process, through all its `finally`, once nothing reads the pipe behind it."""

    is_gone = False

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            self.is_gone = True
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # what is said on the way out goes there
            os.close(nowhere)
            raise SystemExit(GONE) from None


def _end(said: io.TextIOWrapper, output: Output) -> None:
    """Say what is left, and give the status also where that was raised too late to be heard, as in other exit handlers,
    or was caught."""
    with suppress(SystemExit):
        said.flush()
    if output.is_gone:
        os._exit(GONE)
