"""Hold what the rows and the workers' heartbeats say of the loop at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from checkpoints.models import Checkpoint
from gate.models import Examination
from training.batches import Filling
from training.hours import Wait
from training.models import Pause, Run


@dataclass(frozen=True)
class Facts:
    """What the rows and the workers' heartbeats say at one moment."""

    now: datetime
    counts: Mapping[str, Mapping[str, int]]
    """turns, samples, runs and checkpoints: how many in each state, zeros included."""
    oldest: Mapping[str, Mapping[str, datetime]]
    """When the longest-waiting row of each state entered it."""
    batch: Filling
    """The next one."""
    live: Checkpoint
    set_aside: int = 0
    """Samples whose run failed or that one passed over: only a person's "learn now" takes them up again."""
    previous: Checkpoint | None = None
    run: Run | None = None
    """The run that is queued or running, else the last one."""
    candidate: Checkpoint | None = None
    """The candidate under examination, or next to be."""
    examination: Examination | None = None
    passed: Checkpoint | None = None
    """The oldest that waits for a person, and is not on hold."""
    endorsed_by: str = ""
    """Who said the first yes to it, where two people must."""
    on_hold: int = 0
    """How many passed and are on hold."""
    approved: Checkpoint | None = None
    silences: Mapping[str, float | None] | None = field(default_factory=lambda: {"judge": 0.0, "learn": 0.0})
    """Seconds since each queue's worker was heard; None: Redis is away."""
    is_engine_away: bool = False
    """The engine was asked a moment ago, and did not answer."""
    stopped: bool = False
    """Votes would teach, and every judge has stopped (judge.calibration.vote_floor)."""
    unknown: bool = False
    """Votes would teach, and no judge was measured."""
    wait: Wait | None = None
    """Why what is due does not begin now: the queued run, or else the next batch."""
    pause: Pause | None = None
    """A person's, that holds learning back."""
    short_mib: int = 0
    """By how much the disk falls short of what learning leaves free."""
    also: Mapping[str, int] = field(default_factory=dict)
    """What else was counted, by its name."""

    @property
    def held(self) -> str:
        """Why learning waits for the clock or for a person and not for samples, as a sentence; empty where it does not.

        Without a pause only what could begin waits.
        """
        queued = self.counts["runs"]["queued"]
        if self.wait is None or self.counts["runs"]["running"]:
            return ""
        if not queued and not self.pause and self.batch.wanting:
            return ""
        return self.wait.sentence(self.counts["samples"]["claimed"] if queued else self.batch.ready)

    @property
    def claimable(self) -> int:
        """What a run started now would learn from."""
        return max(self.batch.taken, min(self.batch.ready + self.set_aside, self.batch.size))

    @property
    def busy(self) -> bool:
        """A run is queued or running."""
        return bool(self.counts["runs"]["queued"] or self.counts["runs"]["running"])
