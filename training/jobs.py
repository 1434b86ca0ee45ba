"""A job names all that learning needs, without a row: what goes to the process that learns, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpu_workers.types import Example
from training.config import Recipe
from training.objective.closed_questions import Question


@dataclass(frozen=True)
class Job:
    """All that learning needs. `folder` is where the weights go: it must not be there yet."""

    model: str
    start: Path | None
    """The checkpoint to go on from; None: the base."""
    recipe: Recipe
    seed: int
    examples: Sequence[Example]
    is_own: Sequence[bool]
    """Which examples the starting weights themselves served: there the engine's log-probs are comparable."""
    folder: Path
    replayed: Sequence[Example] = ()
    """Of earlier runs: what was written instead of these is learned again."""
    questions: Sequence[Question] = ()
    """Closed ones, to be told right from wrong beside the lesson."""
    is_sharded: bool = False
    """Whether processes that share the job also share an adapter's base, where it does not fit one card."""
    gives_way_to: Sequence[str] = ()
    """Addresses of engines on the same device, whose answers go first (`training/courtesy.py`)."""
    dtype: str = "auto"
    """What the base is computed in; auto: what this machine is quicker in."""
    snapshot: Path | None = None
    """Where what was learned goes when the worker is stopped (`training/snapshots.py`); None: nowhere."""
    code_version: str = ""
    """The code that learns it."""


@dataclass(frozen=True)
class Learned:
    """What a job leaves besides its folder and its figures."""

    probe: dict[str, Any]
    peak_mib: float


class Listener(Protocol):
    """Hears how a job goes. Whatever it raises ends the job."""

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None:
        """Where the job is; `work` in units of about one look at a sample."""

    def keep(self, figures: dict[str, Any]) -> None:
        """The figures of one update."""

    def skip(self, work: int) -> None:
        """So much of the work was done before, by a worker that was stopped."""
