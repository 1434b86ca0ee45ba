"""Rows that tests of several rooms make."""

from __future__ import annotations

from checkpoints.models import Checkpoint
from training.models import Run


def made_by(run: Run, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint, kept as the one that this run made."""
    run.checkpoint = checkpoint
    run.save(update_fields=["checkpoint"])
    return checkpoint
