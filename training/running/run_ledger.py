"""Write what a worker says of its run while it works, and hear that it should stop."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_noop

from core import stops
from core.errors import TalkbackError
from training import config
from training.models import Run
from training.monitoring.usage import Meter
from training.running.disk_room import check_room
from training.running.patience import patiently

BEAT_S = 1.0
"""How often progress is written, at most."""


class Cancelled(TalkbackError):
    """A person stopped the run."""

    code, status = "cancelled", 409


class Lost(TalkbackError):
    """The run was given to another worker while this one was silent; nothing of this one's work counts."""

    code, status = "run_lost", 409


class Ledger:
    """What a worker writes of its run while it works, and how it hears that it should stop."""

    def __init__(self, run: Run, work: int, meter: Meter | None = None) -> None:
        """`work` is the whole in units that take about equally long."""
        self.run, self.work, self.done, self.skipped = run, work, 0, 0
        self.meter = Meter() if meter is None else meter
        self.began = time.monotonic()
        self.written = -math.inf
        self.least_s = math.inf

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None:
        """Say where the run is. Raises Lost when it is no longer this worker's, Cancelled when a person says stop,
        Stopped when the worker was asked to and what is left would take too long, and DiskFull when it is about to save
        what would take from what is kept for chat."""
        if phase == "saving" and not done:
            check_room(config.stored(self.run.recipe))
        self.done += work
        now = time.monotonic()
        if not self.done:  # until the first sample is looked at a model is loaded, which says nothing of the pace
            self.began = now
        stops.check(0.0 if phase == "saving" else self._left_s(now))  # what is learned is written down
        if not force and now - self.written < BEAT_S:
            return
        self.written = now
        # An estimate that grows is worse than one that stands still for a while.
        self.least_s = min(self.least_s, self._left_s(now))
        progress = {
            "phase": phase,
            "done": done,
            "total": total,
            "share": round(1 - self._left / self.work, 4) if self.work else 0.0,
            "eta_s": round(self.least_s, 1) if self.least_s < math.inf else None,
        }
        patiently(partial(self._write, progress))

    @property
    def _left(self) -> int:
        """Of the work. What was done twice, for want of memory, is more than the whole."""
        return max(0, self.work - self.done)

    def _left_s(self, now: float) -> float:
        """How long the rest takes at the pace so far; infinite before anything is done."""
        done = self.done - self.skipped
        return (now - self.began) / done * self._left if done else math.inf

    def skip(self, work: int) -> None:
        """Count what was done before, which says nothing of the pace."""
        self.done, self.skipped = self.done + work, self.skipped + work

    def _write(self, progress: dict[str, Any]) -> None:
        mine = Run.objects.filter(pk=self.run.pk, status=Run.Status.RUNNING, attempts=self.run.attempts)
        self.run.usage = self.meter.rows
        said = {"progress": progress, "metrics": self.run.metrics, "usage": self.run.usage}
        if not mine.update(**said, heartbeat_at=timezone.now()):
            raise Lost(f"{self.run} was given to another worker after a silence.")
        if mine.filter(cancel_asked=True).exists():
            raise Cancelled(gettext_noop("Stopped by a person before it had changed anything."))

    def keep(self, figures: dict[str, Any]) -> None:
        """Add an update's figures to the run; they are written with the next beat. An update that is done again, by
        processes that were begun anew with smaller parts, takes the place of its first try and of all after it."""
        asked, done = self.run.recipe["micro_batch"], figures["micro_batch"]
        if done < asked:
            figures = figures | {"note": f"There was no memory for {asked} samples at a time: it went on with {done}."}
        earlier = [row for row in self.run.metrics if row["update"] < figures["update"]]
        self.run.metrics = [*earlier, figures | {"at_s": self.meter.at_s}]
