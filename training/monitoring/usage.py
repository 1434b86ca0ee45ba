"""Measure what a run takes of the machine while it learns: processor, memory and GPU, a row every few seconds.

The worker that has the run measures itself and all that it started, so that one process and several that torchrun
started are measured alike. A GPU is asked through nvidia-smi, which comes with its driver: what it says holds for the
card, an engine on it included.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil

log = logging.getLogger(__name__)

EVERY_S = 2.0
"""How often it is measured at first; half as often each time the rows are full."""

MOST_ROWS = 240
"""Rows that a run keeps: eight minutes of them, then neighbours share one."""

PATIENCE_S = 10.0
"""How long nvidia-smi may take. One that hangs is not asked again."""

MIB = 2**20

HIGHEST = ("memory_mib", "gpu_mib")
"""Columns of which two rows' higher value is kept: what a machine needs is its peak. Of the others it is the mean."""

QUERY = ["nvidia-smi", "--query-gpu=index,uuid,utilization.gpu,memory.used", "--format=csv,noheader,nounits"]

Row = dict[str, float]
"""{"at_s": seconds since the run began, "updates": how many were done, "cpu": cores busy, "memory_mib": MiB held, and
where there is a card "gpu": its share of time at work, 0 to 1, and "gpu_mib": MiB in use on it}."""


class Meter:
    """Measures in a thread of its own for as long as the `with` lasts. What cannot be measured fails no run."""

    def __init__(self, updates: Callable[[], int] = lambda: 0, every_s: float | None = None) -> None:
        self.rows: list[Row] = []
        self.began = time.monotonic()
        self.every_s = EVERY_S if every_s is None else every_s
        self._updates = updates
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="usage", daemon=True)
        self._asks_gpu = shutil.which(QUERY[0]) is not None
        self._busy_s, self._looked_at = _busy_s(_family()), self.began

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    @property
    def at_s(self) -> float:
        """Seconds since it began."""
        return round(time.monotonic() - self.began, 1)

    def _measure(self) -> None:
        while not self._over.wait(self.every_s):
            try:
                self.look()
            except Exception as failure:
                log.warning("What the run takes of the machine is measured no more: %s", failure)
                return

    def look(self) -> None:
        """Add one row; where there are too many, neighbours share one, and it is measured half as often."""
        family = _family()
        busy_s, now = _busy_s(family), time.monotonic()
        passed = max(now - self._looked_at, 1e-3)
        # A process that ended takes its seconds along: then nothing is known to have been busy.
        cores = max(0.0, busy_s - self._busy_s) / passed
        self._busy_s, self._looked_at = busy_s, now
        row = {
            "at_s": self.at_s,
            "updates": float(self._updates()),
            "cpu": round(cores, 2),
            "memory_mib": round(sum(map(_held, family)) / MIB, 1),
        }
        rows = [*self.rows, row | self._gpu()]
        if len(rows) > MOST_ROWS:
            rows = halved(rows)
            self.every_s *= 2
        self.rows = rows  # in one step: another thread writes them down

    def _gpu(self) -> Row:
        if not self._asks_gpu:
            return {}
        try:
            said = subprocess.run(QUERY, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
            return of_cards(said, os.environ.get("CUDA_VISIBLE_DEVICES"))
        except (OSError, subprocess.SubprocessError, ValueError) as failure:
            self._asks_gpu = False
            log.warning("The GPU is asked no more how busy it is: %s", failure)
            return {}


def _family() -> list[psutil.Process]:
    """This process and all that it started."""
    own = psutil.Process()
    with suppress(psutil.Error):
        return [own, *own.children(recursive=True)]
    return [own]


def _busy_s(family: Sequence[psutil.Process]) -> float:
    """Processor seconds that these have used."""
    total = 0.0
    for process in family:
        with suppress(psutil.Error):  # it has ended meanwhile
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _held(process: psutil.Process) -> int:
    """Bytes of memory that a process holds; 0 when it has ended."""
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def of_cards(said: str, visible: str | None) -> Row:
    """What nvidia-smi says of the cards that are ours: their mean share at work, and their memory in use together. A
    figure that a card does not tell is left out. `visible` is CUDA_VISIBLE_DEVICES; None: all cards are ours.

    >>> of_cards("0, GPU-aa, 50, 1000\\n1, GPU-bb, 100, 3000\\n", "1")
    {'gpu': 1.0, 'gpu_mib': 3000.0}
    >>> of_cards("0, GPU-aa, 50, 1000\\n1, GPU-bb, 100, [N/A]\\n", None)
    {'gpu': 0.75, 'gpu_mib': 1000.0}
    """
    ours = None if visible is None else {name.strip() for name in visible.split(",") if name.strip()}
    busy, used = [], []
    for line in said.splitlines():
        if not line.strip():
            continue
        index, uuid, share, mib = (part.strip() for part in line.split(","))
        if ours is not None and index not in ours and not any(uuid.startswith(name) for name in ours):
            continue
        if share.isdecimal():
            busy.append(int(share) / 100)
        if mib.isdecimal():
            used.append(float(mib))
    found: Row = {}
    if busy:
        found["gpu"] = round(sum(busy) / len(busy), 3)
    if used:
        found["gpu_mib"] = sum(used)
    return found


def halved(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The same in half as many rows; a last one without a neighbour stays as it is.

    >>> first = {"at_s": 2.0, "updates": 0.0, "cpu": 1.0, "memory_mib": 900.0}
    >>> halved([first, {"at_s": 4.0, "updates": 1.0, "cpu": 2.0, "memory_mib": 800.0}])
    [{'at_s': 4.0, 'updates': 1.0, 'cpu': 1.5, 'memory_mib': 900.0}]
    """
    return [_together(*rows[place : place + 2]) for place in range(0, len(rows), 2)]


def _together(one: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> Row:
    """Two neighbours in one row, at the later one's time."""
    if other is None:
        return dict(one)
    merged: Row = {"at_s": other["at_s"], "updates": other["updates"]}
    for name in {**one, **other}:
        values = [row[name] for row in (one, other) if name in row]
        if name not in merged:
            merged[name] = max(values) if name in HIGHEST else round(sum(values) / len(values), 3)
    return merged
