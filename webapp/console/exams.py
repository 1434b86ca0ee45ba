"""What an exam was made of, on the checkpoint's page: the general pack's items, the kept corrections, the meter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from chat.models import Turn
from core.bootstrap import Interval
from judge import own, pack
from judge.models import Examination
from training import config
from training.models import Checkpoint

SHOWN = 12
"""Items of the pack that are listed: those that changed most for the worse."""


@dataclass(frozen=True)
class Asked:
    """An item of the general pack whose answer moved, as the page shows it."""

    id: str
    prompt: str
    right: str
    wrong: str
    """The wrong answer that the candidate finds likeliest."""
    change: float
    is_lost: bool


@dataclass(frozen=True)
class Kept:
    """A kept correction as both did on it."""

    id: str
    turn: Turn | None
    """None: it was deleted since."""
    kind: str
    live: float | None
    candidate: float | None
    change: float | None
    taught: bool
    """Whether the candidate was taught something of its kind."""


@dataclass(frozen=True)
class Standing:
    """One person's kept corrections, or everybody's."""

    who: str
    found: Interval
    is_known: bool
    is_worse: bool
    missing: int
    """How many more it takes until anything is known."""


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """The exam's parts; None before there are any."""
    exam = Examination.objects.filter(checkpoint=checkpoint).select_related("against").first()
    if exam is None or not (exam.pack or exam.personal or exam.meter):
        return None
    limits = config.gate_of(checkpoint.run.recipe if checkpoint.run else {})
    rows = [pack.Row.read(row) for row in exam.pack]
    corrections = [own.Row.read(row) for row in exam.personal]
    return {
        "exam": exam,
        "checkpoint": checkpoint,
        "pack": pack.outcome(rows),
        "moved": moved(rows),
        "people": people(own.outcome(corrections, limits.own_enough), limits.own_fall),
        "kept": kept(corrections),
        "meter": list(exam.meter.values()),
    }


def moved(rows: Sequence[pack.Row]) -> list[Asked]:
    """The items that were lost, and then those that came nearest to it, the plainest first."""
    known = {item.mark: item for item in pack.items()}
    falling = sorted((row for row in rows if row.change < 0), key=lambda row: (not row.is_lost, row.change))
    found = []
    for row in falling[:SHOWN]:
        item = known.get(row.mark)
        said = item.wrong[row.candidate.wrong.index(max(row.candidate.wrong))] if item and item.wrong else ""
        prompt, right = (item.prompt, item.right) if item else (f"{row.item}, which the pack has no more", "")
        found.append(Asked(row.item, prompt, right, said, row.change, row.is_lost))
    return found


def kept(rows: Sequence[own.Row]) -> list[Kept]:
    """The kept corrections, the worst first; those that could not be asked last."""
    turns = Turn.objects.select_related("judgement").in_bulk([UUID(row.turn) for row in rows])
    ordered = sorted(rows, key=lambda row: (row.change is None, row.change or 0.0))
    return [
        Kept(row.turn, turns.get(UUID(row.turn)), row.kind, row.live, row.candidate, row.change, row.taught)
        for row in ordered
    ]


def people(found: own.Outcome, fall: float) -> list[Standing]:
    """Everybody together, then each person, the worst first."""
    if found.all is None:
        return []
    names = dict(get_user_model().objects.filter(pk__in=found.people).values_list("pk", "username"))
    each = sorted(found.people.items(), key=lambda item: item[1].mean)
    whose = [("everybody", found.all), *((names.get(person, "somebody who left"), one) for person, one in each)]
    return [
        Standing(who, one, found.is_known(one), found.is_worse(one, fall), max(0, found.enough - one.number))
        for who, one in whose
    ]
