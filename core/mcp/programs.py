"""A server's program, which is spoken to over its standard streams."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class Talker(ABC):
    """A program that runs: pipes to it, and its end."""

    process: subprocess.Popen[bytes]
    """Its standard streams are pipes; nothing of the starter's environment is in its own."""

    @abstractmethod
    def kill(self) -> None:
        """End it and all that it started; safe to call twice."""


class Own(Talker):
    """A program of one's own, as this user, with its network and files, and with an environment of few words."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        """Raises OSError where it does not start."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=kept | dict(env), cwd=cwd, start_new_session=True
        )

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
