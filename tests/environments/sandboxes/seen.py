"""What the host sees of a sandbox: its processes, by the namespace that they are in."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.patience import Patience


def processes_of(namespace: str) -> list[int]:
    """Host's numbers of the processes whose /proc/PID/ns/pid is this. One that is dead and not yet reaped is none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                state = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()[0]
                if state not in "ZX" and os.readlink(f"/proc/{entry}/ns/pid") == namespace:
                    found.append(int(entry))
    return found


def namespace_of(sandbox) -> str:
    """The sandbox's own name for its namespace is the host's."""
    return sandbox.run(["readlink", "/proc/self/ns/pid"], timeout_s=10).out.decode().strip()


@contextmanager
def most_processes(namespace: str) -> Iterator[list[int]]:
    """Count a sandbox's processes while something runs in it; the list holds each count."""
    counts: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            counts.append(len(processes_of(namespace)))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield counts
    finally:
        over.set()
        watcher.join()


def wait_until_gone(namespace: str, within_s: float) -> bool:
    patience = Patience(within_s)
    while processes_of(namespace):
        if patience.is_over:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()
