"""What a process and all that it started hold and have used."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

LOOK_S = 0.5
PR_SET_CHILD_SUBREAPER = 36


class Memory:
    """Watch what a process and its descendants hold, twice a second, until this context ends."""

    def __init__(self, pid: int) -> None:
        self.most = 0
        """Bytes: proportional (PSS), so what processes share is counted once."""
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.most = max(self.most, sum(map(held, tree(self._pid))))


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and (fields := _stat(int(entry))):
            children.setdefault(int(fields[1]), []).append(int(entry))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def held(pid: int) -> int:
    """Bytes that a process holds, proportional; 0 of one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def used_s(pid: int) -> float:
    """Seconds of processor time of a process, of its descendants, and of those of them that it waited for."""
    ticks = sum(sum(map(int, fields[11:15])) for each in tree(pid) if (fields := _stat(each)))
    return ticks / os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """From now on, have processes whose parent was killed, as those in a sandbox, become this one's children."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def ended_s() -> float:
    """Seconds of processor time of all descendants that have ended; orphans that were adopted are waited for."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from its third on; none of a process that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
