"""A snapshot: what a run had learned after some of its updates, when its worker was asked to stop or was killed.

The next worker takes the rest of the updates from there, to the very weights that the first one would have come to, if
the job is the same to the last token and learned by the same code. Else the snapshot is of no use, and is replaced.
Adapters only: whole models are too much to write in the time that a stop leaves.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import uuid
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_workers.learner.learner import Learner
    from training.jobs import Job

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[1]

FILE = "snapshot.json"

EVERY_S = 60.0
"""After an update that ends so long after the last snapshot there is a new one, since a kill leaves no time for it."""

PASSING = ("folder", "snapshot", "gives_way_to")
"""What of a job may change from one worker to the next without changing its weights."""


@dataclass(frozen=True)
class Snapshot:
    """Weights, optimiser and figures after the first updates of a job."""

    folder: Path
    figures: list[dict[str, Any]]
    """One dict an update."""


def home(data_dir: Path) -> Path:
    """Where the snapshots of an installation are, a folder a run."""
    return data_dir / "snapshots"


def find(job: Job) -> Snapshot | None:
    """The snapshot that was taken of this very job."""
    if job.snapshot is None:
        return None
    try:
        kept = json.loads((job.snapshot / FILE).read_text())
    except (OSError, ValueError):
        return None
    return Snapshot(job.snapshot, kept["figures"]) if kept["job"] == _digest(job) else None


def dtype(job: Job) -> str:
    """Read what the snapshot of this job's run was computed in; empty without one."""
    try:
        return str(json.loads((job.snapshot / FILE).read_text())["dtype"]) if job.snapshot is not None else ""
    except (OSError, ValueError, KeyError):
        return ""


def take(job: Job, learner: Learner, figures: list[dict[str, Any]]) -> None:
    """Write what a job has come to after so many updates, in place of any earlier snapshot of its run. Does nothing for
    a job without a place for it; one that cannot be written is no reason for a run to fail."""
    if job.snapshot is None:
        return
    draft = job.snapshot.with_name(f"{job.snapshot.name}.{uuid.uuid4().hex}")
    try:
        learner.save(draft)
        (draft / FILE).write_text(json.dumps({"job": _digest(job), "dtype": job.dtype, "figures": figures}))
        shutil.rmtree(job.snapshot, ignore_errors=True)
        draft.rename(job.snapshot)
    except Exception as failure:  # a full disk is called differently by each library
        log.warning("No snapshot after update %s: %s", len(figures), failure)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def clear(data_dir: Path, keep: Collection[int] = ()) -> None:
    """Remove every snapshot, and draft of one, but those of these runs."""
    kept = {str(pk) for pk in keep}
    for folder in home(data_dir).glob("*"):
        if folder.name.lstrip(".").partition(".")[0] not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def _digest(job: Job) -> str:
    """Equal for jobs that come to the same weights."""
    fields = {name: value for name, value in asdict(job).items() if name not in PASSING}
    fields |= {"recipe": job.recipe.model_dump(), "sources": _sources()}
    written = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(written.encode()).hexdigest()


@cache
def _sources() -> str:
    """A digest of the code that learns: a version that says "changed" may be any."""
    found = hashlib.sha256()
    for room in ("core", "gpu_workers", "training"):
        for file in sorted((ROOT / room).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()
