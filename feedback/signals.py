"""What feedback announces to the rooms above it, and asks of them; webapp/pipeline.py names who listens."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.dispatch import Signal

from checkpoints.models import Checkpoint

withdrawn = Signal()
"""Feedback on the turn `turn_id` was taken back; it had stood for `spans` [(since, until or None)]. It is sent inside
the transaction that takes it back, so that the mark on what was learned stands or falls with it."""

tainted = Signal()
"""Asks which checkpoints still hold what was taken back of the turn `turn_id`. Each receiver returns a list of them."""


def checkpoints_tainted_by(turn_id: UUID) -> list[Checkpoint]:
    """Find the checkpoints whose weights hold what was taken back of this turn, the newest first."""
    answers = tainted.send(None, turn_id=turn_id)
    return [one for _, found in answers for one in cast(list[Checkpoint], found)]
