"""Read what weights learned: in numbers, and sample by sample, each with its turn, its verdict and its votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Aggregate, Count, Max, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from chat.models import Turn
from checkpoints.models import Checkpoint
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
    """Of each of these lines of checkpoints. One query, which goes to each sample and to each turn once."""
    parts = [part for at, line in enumerate(lines) for part in _counted(at, line)]
    found = {(at, of): [int(n or 0) for n in counts] for at, of, *counts in parts[0].union(*parts[1:], all=True)}
    none = [0] * 5
    return [Totals(*found.get((at, "samples"), none)[:2], *found.get((at, "turns"), none)) for at in range(len(lines))]


def _counted(at: int, line: list[Checkpoint]) -> tuple[QuerySet[Any, Any], QuerySet[Any, Any]]:
    """Two rows that begin with (at, what is counted): samples with those taken back, and then nothing; and turns with
    what belongs to them, in the order of `Totals`."""
    learned = Sample.objects.filter(lineage.samples(line))
    gone = Count("pk", filter=lineage.GONE)
    samples = _row(learned, at, "samples", Count("pk"), gone, *(Max(Value(0)) for _ in range(3)))
    turns = _row(
        Turn.objects.filter(pk__in=_of(learned)),
        *(at, "turns", Count("pk")),
        Sum(_each(Vote.objects.all())),
        Count("judgement", filter=~Q(judgement__hint="")),
        Sum(_each(Feedback.objects.standing())),
        Count("session__user", distinct=True),
    )
    return samples, turns


def _row(rows: QuerySet[Any], at: int, of: str, *counts: Aggregate) -> QuerySet[Any, Any]:
    named = {f"n{place}": count for place, count in enumerate(counts)}
    counted = rows.order_by().annotate(at=Value(at), of=Value(of)).values("at", "of").annotate(**named)
    return counted.values_list("at", "of", *named)


def _each(rows: QuerySet[Any]) -> Coalesce:
    """Of a turn: how many of these are of it."""
    of_turn = rows.filter(turn=OuterRef("pk")).order_by().values("turn").annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(of_turn), 0)


def _of(learned: QuerySet[Sample]) -> QuerySet[Sample, Any]:
    """The keys of the turns that these samples were made of: the sample names its turn, or, an old one, its verdict
    does, and some twice. Each way is asked for by itself, and not all turns are joined with all verdicts."""
    old = learned.filter(origin=None).order_by().values("pk")
    verdicts = (Judgement.objects.filter(**{f"{name}__in": old}).values("turn") for name in ("sample", "learned"))
    return learned.exclude(origin=None).order_by().values("origin").union(*verdicts, all=True)


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
