"""This machine, as a run of many processes needs to know it: cores, free ports, what is left over, what was spent."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

MARK = "TALKBACK_EVIDENCE"
"""In the environment of every process we start, with our folder: nothing without it is ever stopped."""

STOP_S = 15.0
"""How long what is told to stop may take."""


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_given_out: set[int] = set()


def free_ports(number: int) -> list[int]:
    """Ports of this machine on which no process listens now, and that were not given out before."""
    found, held = list[int](), list[socket.socket]()
    try:
        while len(found) < number:
            held.append(socket.socket())
            held[-1].bind(("127.0.0.1", 0))
            port = int(held[-1].getsockname()[1])
            if port not in _given_out:
                found.append(port)
    finally:
        for one in held:
            one.close()
    _given_out.update(found)
    return found


def left(folder: Path) -> list[int]:
    """Processes of an earlier start on this folder, by the mark in their environment."""
    mark, found = f"{MARK}={folder}".encode(), []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environ.read_bytes().split(b"\0") and int(environ.parent.name) != os.getpid():
                found.append(int(environ.parent.name))
    return found


def stop_left(folder: Path) -> int:
    """Stop what a run that was killed left on this folder; returns how many processes there were."""
    found = left(folder)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end = monotonic() + STOP_S
    while left(folder) and monotonic() < end:
        sleep(0.1)
    return len(found)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended; 0 where that cannot be told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def tail(text: str, lines: int) -> str:
    """Its last lines, as one sentence can hold them."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:]) or "(nothing)"
