"""A program in a sandbox of its own that is spoken to over its standard streams, such as a server of tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from environments.errors import SandboxUnavailable
from environments.sandboxes import bubblewrap
from environments.sandboxes.bubblewrap import TEMPORARY, Bubblewrap, python_inside
from environments.sandboxes.sandbox import PATH, WORK, Wants

LAUNCHER = """
import json, os, resource, sys
said = json.loads(sys.argv[1])
for name, most in said["rlimits"].items():
    resource.setrlimit(getattr(resource, name), (most, most))
os.nice(10)
try:
    os.execvpe(said["argv"][0], said["argv"], said["env"])
except OSError as error:
    sys.exit(f"{said['argv'][0]}: {error.strerror}")
"""
"""Becomes the program, within its limits."""


class Talker(ABC):
    """A program that runs: pipes to it, and its end."""

    process: subprocess.Popen[bytes]
    """Its standard streams are pipes; nothing of the player's environment is in its own."""

    @abstractmethod
    def kill(self) -> None:
        """End it and all that it started; safe to call twice."""


@dataclass(eq=False)
class Piped(Bubblewrap):
    """Bubblewrap's sandbox with a program in place of the keeper: no commands are run in it, and no files taken out."""

    argv: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def _greet(self) -> None:
        """The program says nothing before it is spoken to."""

    def _program(self) -> list[str]:
        env = {"PATH": PATH, "HOME": WORK, "LANG": "C.UTF-8", "TMPDIR": TEMPORARY, **self.env}
        said = {"rlimits": self._rlimits(), "argv": list(self.argv), "env": env}
        return [python_inside(), "-I", "-S", "-c", LAUNCHER, json.dumps(said)]

    @property
    def process(self) -> subprocess.Popen[bytes]:
        return self._process


class Confined(Talker):
    """A stranger's program, in bubblewrap's sandbox."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], wants: Wants) -> None:
        """Raises SandboxUnavailable, SandboxRefused."""
        if sentence := bubblewrap.why_not():
            raise SandboxUnavailable(sentence)
        self._sandbox = Piped(wants, argv=argv, env=env)
        self.process = self._sandbox.process

    def kill(self) -> None:
        self._sandbox.kill()


class Own(Talker):
    """A program of one's own, as this user, with its network and files, and with an environment of few words."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        """Raises SandboxUnavailable where it does not start."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                list(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=kept | dict(env), cwd=cwd, start_new_session=True
            )
        except OSError as error:
            raise SandboxUnavailable(f"{argv[0]}: {error.strerror}") from error

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
