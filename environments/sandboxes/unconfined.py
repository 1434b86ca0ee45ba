"""No sandbox: a temporary folder and limits a process. For code of one's own alone."""

from __future__ import annotations

import os
import resource
import stat
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environments.errors import SandboxEnded, SandboxRefused
from environments.sandboxes.commands import run_bounded
from environments.sandboxes.sandbox import PATH, WORK, Capabilities, Result, Sandbox
from environments.sandboxes.trees import Tree, read_folder, refuse_escape


@dataclass(eq=False)
class Unconfined(Sandbox):
    """A folder in which commands run as this user, with its network and its files. Strangers' code is refused."""

    trusted: bool = False
    """The code that runs in it is the user's own."""

    def __post_init__(self) -> None:
        if not self.trusted:
            raise SandboxRefused(
                "Without a sandbox strangers' code could read and change what this user can: install bubblewrap "
                "(sudo apt-get install bubblewrap), or docker or podman."
            )
        self.capabilities.refuse_unmet(self.wants, "No sandbox")
        self._held = tempfile.TemporaryDirectory(prefix="talkback-unconfined-")
        self._folder = Path(self._held.name).resolve()
        self._lock = threading.RLock()
        self._ended = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            networks=frozenset({"public"}),
            memory=False,
            processes=False,
            disk=False,
            mounts=False,
            for_strangers=False,
            missing=("There is no sandbox: commands run as this user, with its files and its network.",),
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = WORK,
    ) -> Result:
        with self._lock:
            self._refuse_ended()
            try:
                return run_bounded(
                    argv,
                    timeout_s=timeout_s,
                    most_output=self.MOST_OUTPUT,
                    env={"PATH": PATH, "HOME": str(self._folder), "LANG": "C.UTF-8", **(env or {})},
                    stdin=stdin,
                    cwd=self._place(cwd),
                    limit=self._limit,
                )
            except OSError as error:
                return Result(127, b"", f"{argv[0]}: {error.strerror}\n".encode())

    def _limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.wants.disk, self.wants.disk))
        if sys.platform == "linux":
            resource.setrlimit(resource.RLIMIT_AS, (self.wants.memory, self.wants.memory))

    def _place(self, path: str) -> Path:
        inside = os.path.relpath(os.path.join(WORK, path), WORK)
        if inside == ".":
            return self._folder
        refuse_escape(inside)
        place = self._folder / inside
        if not place.parent.resolve().is_relative_to(self._folder):
            raise FileNotFoundError(f"{path}: a link leads out of the folder")
        return place

    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        with self._lock:
            self._refuse_ended()
            place = self._place(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, mode & 0o777)
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)

    def get(self, path: str) -> bytes:
        with self._lock:
            self._refuse_ended()
            place = self._place(path)
            try:
                handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError as error:
                raise FileNotFoundError(f"{path}: {error.strerror}") from error
            with os.fdopen(handle, "rb") as opened:
                regular = stat.S_ISREG(os.fstat(handle).st_mode)
                content = opened.read(self.MOST_FILE + 1) if regular else None
            if content is None or len(content) > self.MOST_FILE:
                raise FileNotFoundError(f"{path}: no regular file of at most {self.MOST_FILE} bytes")
            return content

    def read_tree(self, path: str = WORK) -> Tree:
        with self._lock:
            self._refuse_ended()
            return read_folder(self._place(path))

    def _refuse_ended(self) -> None:
        if self._ended:
            raise SandboxEnded("The sandbox has been killed.")

    def kill(self) -> None:
        with self._lock:
            self._ended = True
            self._held.cleanup()
