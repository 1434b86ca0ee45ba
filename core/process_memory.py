"""Measure this process' memory as the system sees it, and have the allocator give free pages back.

Everything here does nothing, or tells 0, where the C library or the system is another than Linux with glibc.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

ARENAS = 2
"""Heaps of the allocator. By default there are eight a core, and each keeps what its threads once used."""

M_ARENA_MAX = -8
"""As malloc.h has it."""

SOON_S = 2.0
"""How long after a large request was answered its memory is given back: by then its objects are gone."""


def limit_arenas() -> None:
    """Have the allocator make do with ARENAS heaps. Call it before threads start."""
    library = _glibc()
    if library is not None:
        library.mallopt(M_ARENA_MAX, ARENAS)


def trim() -> None:
    """Give the system back what is free in the allocator's heaps. Takes milliseconds; other threads go on."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


_trimming = threading.Lock()


def trim_soon() -> None:
    """`trim`, in a thread, once the running loop has had SOON_S for other things; several calls are one."""
    if not _trimming.acquire(blocking=False):
        return
    loop = asyncio.get_running_loop()

    def run() -> None:
        _trimming.release()
        trim()

    loop.call_later(SOON_S, lambda: loop.run_in_executor(None, run))


def resident_bytes() -> int:
    """What of this process lies in memory, files that it has mapped included."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


def machine_bytes() -> int:
    """What this machine has, or a container's limit where that is less; 4 GiB where neither is told."""
    told = []
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            told.append(int(Path(limit).read_text()))  # "max" where there is none
        except (OSError, ValueError):
            continue
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        told += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")]
    except OSError:
        pass
    return min(told, default=4 << 30)


@lru_cache
def _glibc() -> Any:
    try:
        library = ctypes.CDLL("libc.so.6")
        library.malloc_trim.argtypes, library.malloc_trim.restype = [ctypes.c_size_t], ctypes.c_int
        library.mallopt.argtypes, library.mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    except (OSError, AttributeError):
        return None
    return library
