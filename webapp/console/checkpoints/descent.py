"""Read what weights learned: in numbers, and sample by sample, each with its turn, its verdict and its votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from core.counting import count_rows
from feedback.models import Feedback
from judge.models import Judgement, Vote
from training.models import Sample
from training.provenance import lineage


@dataclass(frozen=True)
class Totals:
    """What some checkpoints learned from, in numbers."""

    samples: int
    taken_back: int
    turns: int
    votes: int
    hints: int
    """Samples whose verdict brought one."""
    feedback: int
    """What people said of those turns, as it stands."""
    people: int


def panel(line: list[Checkpoint]) -> Mapping[str, Any]:
    """Lineage in numbers on a checkpoint's page: of it, and of all that it came from, nearest first."""
    own, whole = totals(line[:1], line)
    return {"checkpoint": line[0], "steps": line, "own": own, "whole": whole, "origin": origin(line[0])}


def totals(*lines: list[Checkpoint]) -> list[Totals]:
    """Of each of these lines of checkpoints. One query."""
    parts = {f"{name} {at}": rows for at, line in enumerate(lines) for name, rows in _counted(line).items()}
    found = count_rows(**parts)
    return [
        Totals(**{name.removesuffix(f" {at}"): n for name, n in found.items() if name.endswith(f" {at}")})
        for at in range(len(lines))
    ]


def _counted(line: list[Checkpoint]) -> dict[str, QuerySet[Any, Any]]:
    learned = Sample.objects.filter(lineage.samples(line))
    turns = _of(learned)
    return {
        "samples": learned,
        "taken_back": learned.filter(lineage.GONE),
        "turns": Turn.objects.filter(pk__in=turns),
        "votes": Vote.objects.filter(turn__in=turns),
        "hints": Judgement.objects.filter(turn__in=turns).exclude(hint=""),
        "feedback": Feedback.objects.standing().filter(turn__in=turns),
        "people": User.objects.filter(pk__in=Session.objects.filter(turns__in=turns).values("user")),
    }


def _of(learned: QuerySet[Sample]) -> QuerySet[Sample, Any]:
    """The keys of the turns that these samples were made of: the sample names its turn, or, an old one, its verdict
    does. Each way is asked for by itself, and not all turns are joined with all verdicts."""
    old = learned.filter(origin=None).order_by().values("pk")
    verdicts = (Judgement.objects.filter(**{f"{name}__in": old}).values("turn") for name in ("sample", "learned"))
    return learned.exclude(origin=None).order_by().values("origin").union(*verdicts)


def origin(checkpoint: Checkpoint) -> Mapping[str, Any] | None:
    """Of an imported one: whence it came, by its receipt."""
    told = checkpoint.came_from
    if not told:
        return None
    parts = told["parts"]
    return {
        "name": parts["checkpoint"].get("name"),
        "signed": str(told["signed_at"])[:10],
        "samples": parts["samples"].get("count"),
        "recipe": parts["recipe"],
        "code": parts["run"].get("code_version"),
        "seed": parts["run"].get("seed"),
    }


@dataclass(frozen=True)
class Lesson:
    """One sample with what it was made of. No turn: its people took it back."""

    sample: Sample
    turn: Turn | None
    verdict: Judgement | None
    votes: int


HEAVY = ("prompt_ids", "mask", "behaviour_logprobs", "sampled_logprobs", "teacher_prompt_ids", "rewards", "rewrite_ids")
"""Columns of a sample that no list shows."""


def lessons(samples: list[Sample]) -> list[Lesson]:
    """These samples with their turns, verdicts and votes, in a fixed number of queries."""
    pks = [sample.pk for sample in samples]
    origins = [sample.origin for sample in samples if sample.origin is not None]
    found = Judgement.objects.filter(Q(sample__in=pks) | Q(learned__in=pks) | Q(turn__in=origins))
    found = found.select_related("turn__session__user", "turn__checkpoint")
    by_sample: dict[int | UUID | None, Judgement] = {}
    found = found.defer("turn__prompt_ids", "turn__logprobs", "turn__response_ids", "teacher", "evidence")
    for verdict in found:
        by_sample |= {verdict.learned_id: verdict, verdict.sample_id: verdict, verdict.turn_id: verdict}
    by_sample.pop(None, None)
    votes: dict[UUID, int] = {}
    for pk in Vote.objects.filter(turn__in=[one.turn_id for one in found]).values_list("turn", flat=True):
        votes[pk] = votes.get(pk, 0) + 1
    told = []
    for sample in samples:
        of_it = by_sample.get(sample.origin) or by_sample.get(sample.pk)
        turn = of_it.turn if of_it is not None else None
        told.append(Lesson(sample, turn, of_it, votes.get(turn.pk, 0) if turn is not None else 0))
    return told
