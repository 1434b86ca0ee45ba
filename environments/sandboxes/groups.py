"""Control groups, version 2 or 1: bound the processes and the memory of everything in a sandbox together."""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
NAME = "talkback-sandbox"
CONTROLLERS = ("pids", "memory")


@dataclass(frozen=True)
class Group:
    """The folders of one sandbox, one a hierarchy. A process joins by writing 0 to each one's cgroup.procs."""

    folders: tuple[Path, ...]

    def remove(self, timeout_s: float = 2.0) -> None:
        """Remove it once it is empty. One that will not go is left to the next sweep."""
        deadline = time.monotonic() + timeout_s
        for folder in self.folders:
            while folder.exists():
                with suppress(OSError):
                    folder.rmdir()
                    break
                if time.monotonic() > deadline:
                    break
                time.sleep(0.005)


@dataclass(frozen=True)
class Hierarchies:
    """Where groups can be made for each controller, version 2 or 1; a controller that is absent cannot be bound."""

    parents: dict[str, tuple[int, Path]]

    @classmethod
    def find(cls, mounted: Path = MOUNTED, own: str | None = None) -> Hierarchies:
        """Look below this process's own groups, so that whatever bounds them bounds sandboxes as well.

        `own` is the text of /proc/self/cgroup.
        """
        if own is None:
            own = Path("/proc/self/cgroup").read_text() if Path("/proc/self/cgroup").exists() else ""
        parents: dict[str, tuple[int, Path]] = {}
        for line in own.splitlines():
            number, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            if number == "0":
                for top in (mounted, mounted / "unified"):
                    if found := _second(top, path):
                        parents.update({name: (2, found) for name in CONTROLLERS if name not in parents})
            for name in CONTROLLERS:
                if name in names.split(",") and (found := _first(mounted / names, mounted / name, path)):
                    parents[name] = (1, found)
        return cls(parents)

    @property
    def missing(self) -> tuple[str, ...]:
        said = {
            "pids": "No control group bounds processes here: each has a limit of the kernel's on its user's instead.",
            "memory": "No control group bounds memory here: each process has a stricter limit of its own, and all of "
            "them together may use that much each.",
        }
        return tuple(said[name] for name in CONTROLLERS if name not in self.parents)

    def make(self, *, processes: int, memory: int) -> Group:
        """Make a group with these bounds. Raises OSError."""
        name = f"{NAME}-{os.getpid()}-{secrets.token_hex(4)}"
        folders: list[Path] = []
        for _, parent in self.parents.values():
            if parent / name not in folders:
                folders.append(parent / name)
        try:
            for folder in folders:
                folder.mkdir()
            for controller, (version, parent) in self.parents.items():
                _bound(parent / name, controller, version, processes, memory)
        except OSError:
            Group(tuple(folders)).remove(0)
            raise
        return Group(tuple(folders))

    def sweep(self) -> None:
        """Remove what starters that were killed have left: a group that is empty, of a process that is gone."""
        for parent in {parent for _, parent in self.parents.values()}:
            for folder in parent.glob(f"{NAME}-*"):
                said = re.fullmatch(rf"{NAME}-(\d+)-\w+", folder.name)
                if said and not Path("/proc", said[1]).exists():
                    with suppress(OSError):
                        folder.rmdir()


def _first(together: Path, alone: Path, path: str) -> Path | None:
    """The nearest own folder of a version 1 hierarchy. A container may see its own group as the top."""
    for top in (alone, together):
        folder = _nearest(top, path)
        if folder is not None and os.access(folder, os.W_OK) and (folder / "cgroup.procs").exists():
            return folder
    return None


def _second(top: Path, path: str) -> Path | None:
    """The nearest folder of version 2 that hands both controllers down and may be written.

    One with processes in it hands nothing down, so it is most often the parent of this process's own.
    """
    folder = _nearest(top, path)
    while folder is not None and folder.is_relative_to(top):
        handed = folder / "cgroup.subtree_control"
        if (
            handed.exists()
            and {*CONTROLLERS} <= set(handed.read_text().split())
            and os.access(folder, os.W_OK)
            and os.access(folder / "cgroup.procs", os.W_OK)
        ):
            return folder
        folder = folder.parent
    return None


def _nearest(top: Path, path: str) -> Path | None:
    if not top.is_dir():
        return None
    folder = top / path.lstrip("/")
    while not folder.is_dir():
        folder = folder.parent
    return folder if folder.is_relative_to(top) else top


def _bound(folder: Path, controller: str, version: int, processes: int, memory: int) -> None:
    if controller == "pids":
        (folder / "pids.max").write_text(str(processes))
    elif version == 2:
        (folder / "memory.max").write_text(str(memory))
        with suppress(OSError):  # a kernel without swap has no such file
            (folder / "memory.swap.max").write_text("0")
    else:
        (folder / "memory.limit_in_bytes").write_text(str(memory))
        with suppress(OSError):  # a kernel that does not count swap has no such file
            (folder / "memory.memsw.limit_in_bytes").write_text(str(memory))
