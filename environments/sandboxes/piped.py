"""A program in a sandbox of its own that is spoken to over its standard streams, such as a server of tools."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.mcp.programs import Talker
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
