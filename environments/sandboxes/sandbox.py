"""What every kind of sandbox can be asked, and what it says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Literal, Self

from environments.errors import SandboxRefused
from environments.sandboxes.trees import Tree

Network = Literal["no", "allowlist", "public"]
MIB = 2**20
WORK = "/box"
"""The one writable folder. It begins empty, and is gone with the sandbox."""
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host, seen inside at the absolute path `at`, never to be written."""

    source: Path
    at: str

    def __post_init__(self) -> None:
        refuse_covering(self.at)


def refuse_covering(at: str) -> None:
    """Raises SandboxRefused for a place that is no absolute path, or that the sandbox itself brings."""
    place = PurePosixPath(at)
    if not place.is_absolute() or ".." in place.parts or len(place.parts) < 2:
        raise SandboxRefused(f"A mount at {at!r}: name an absolute path below /.")
    if place.parts[1] in (WORK.strip("/"), "tmp", "proc", "dev", "usr", "bin", "lib", "lib32", "lib64", "sbin", "etc"):
        raise SandboxRefused(f"A mount at {at} would cover what the sandbox brings: choose another path.")


@dataclass(frozen=True)
class Wants:
    """What a task needs and may use; sizes in bytes."""

    network: Network = "no"
    memory: int = 512 * MIB
    """Of all processes together; files in the writable folder come on top."""
    processes: int = 64
    """Threads count as processes."""
    disk: int = 256 * MIB
    """Of the writable folder."""
    mounts: tuple[Mount, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders beside /box that may be written and hold work, where a task has its files at /app or the like. /box and
    they share `disk` out evenly."""
    scratch: tuple[str, ...] = ()
    """Folders of 1 MiB that may be written besides; a verifier's verdict goes to one, and an agent has none."""
    image: str = "python:3.11-slim"
    """For containers alone."""

    def __post_init__(self) -> None:
        for at in (*self.folders, *self.scratch):
            refuse_covering(at)
        if self.memory < 16 * MIB or self.disk < MIB or not 4 <= self.processes <= 4096:
            raise SandboxRefused("A sandbox has at least 16 MiB of memory, 1 MiB of disk, and 4 to 4096 processes.")

    @property
    def disk_each(self) -> int:
        """Bytes of /box and of each of `folders`."""
        return self.disk // (1 + len(self.folders))


@dataclass(frozen=True)
class Capabilities:
    """What a kind of sandbox holds to on this machine. `missing` has a sentence for each bound that is weaker."""

    networks: frozenset[Network]
    memory: bool
    processes: bool
    disk: bool
    mounts: bool
    for_strangers: bool
    missing: tuple[str, ...] = ()

    def refuse_unmet(self, wants: Wants, kind: str) -> None:
        """Raises SandboxRefused where `wants` asks for more than this."""
        if wants.network not in self.networks:
            able = " or ".join(sorted(self.networks))
            raise SandboxRefused(f"{kind} gives network {able}, and the task asks for {wants.network}.")
        if (wants.mounts or wants.scratch or wants.folders) and not self.mounts:
            raise SandboxRefused(f"{kind} mounts no folders of the host.")


@dataclass(frozen=True)
class Result:
    """What one command came to. `status` is the exit status, or 128 and the signal that ended it, as a shell says."""

    status: int
    out: bytes
    err: bytes
    timed_out: bool = False
    cut: bool = False
    """More was printed than is kept."""
    left_out: int = 0
    """Bytes that are missing in the middle of `out`."""


@dataclass(eq=False)
class Sandbox(ABC):
    """One task's room. Of two callers one waits; `kill` may be called at any time, and again."""

    wants: Wants = field(default_factory=Wants)
    MOST_OUTPUT = 256 * 1024
    """Bytes kept of what a command prints to each of its two streams: as many of its beginning as of its end."""
    MOST_FILE = 16 * MIB

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = WORK,
    ) -> Result:
        """Run a command to its end. After `timeout_s` every process in the sandbox is killed.

        `env` comes on top of PATH, HOME and LANG; nothing of the host's environment is seen. Raises SandboxEnded.
        """

    @abstractmethod
    def put(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a file, folders and all; `path` is taken from the writable folder unless it is absolute."""

    @abstractmethod
    def get(self, path: str) -> bytes:
        """Read a regular file of at most MOST_FILE bytes. A link, a pipe or a device is a FileNotFoundError."""

    @abstractmethod
    def read_tree(self, path: str = WORK) -> Tree:
        """Kill what still runs, then read each regular file and empty folder below `path`; links and what is no file
        are left out."""

    def write_tree(self, tree: Tree, path: str = WORK) -> None:
        base = path.rstrip("/")
        for name, file in tree.files.items():
            self.put(f"{base}/{name}", file.content, mode=file.mode)
        if tree.folders:
            self.run(["mkdir", "-p", "--", *(f"{base}/{name}" for name in tree.folders)], timeout_s=30, cwd="/")

    @abstractmethod
    def kill(self) -> None:
        """End every process in it, and the folder with them. When this returns none of them is alive."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
