"""The questions that chat asks of the rooms above it; webapp/pipeline.py names who answers."""

from __future__ import annotations

from typing import cast

from django.db.models import QuerySet
from django.dispatch import Signal

from chat.models import Turn
from checkpoints.models import Checkpoint

who_learned = Signal()
"""Asks which checkpoints learned from `turns`, a query of their keys. Each receiver returns a list of checkpoints."""


def checkpoints_that_learned_from(turns: QuerySet[Turn]) -> list[Checkpoint]:
    """Find the checkpoints whose weights learned from these turns, the newest first."""
    keys = turns.order_by().values("pk")
    answers = who_learned.send(Turn, turns=keys)
    return [one for _, found in answers for one in cast(list[Checkpoint], found)]
