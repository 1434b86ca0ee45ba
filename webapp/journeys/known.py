"""Read what journeys are told from, in a fixed number of queries, and tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.utils.translation import gettext as _

from chat.models import Turn
from checkpoints.models import SHARED
from judge.models import Hint, Judgement, Vote
from judge.samples import redaction
from training import batches, line_recipes
from training.models import Sample
from webapp.journeys.ballots import Ballot, count_votes
from webapp.journeys.stages import Batch, Journey, tell
from webapp.journeys.verdict_words import beside

LONG = (
    "prompt_ids", "response_ids", "mask", "behaviour_logprobs", "sampled_logprobs", "rewards", "teacher_prompt_ids",
    "rewrite_ids",
)  # fmt: skip
"""Columns of a sample that hold a list as long as a conversation."""


@dataclass(frozen=True)
class Known:
    """What the database knows of some turns, read at once."""

    judgements: Mapping[UUID, Judgement]
    ballots: Mapping[UUID, Ballot]
    batches: Mapping[str, Batch]
    """By the line that fills them."""
    guesses: Mapping[UUID, Hint] = field(default_factory=dict)
    """The hint of a judge that stands or waits, by turn."""

    def batch(self, sample: Sample | None) -> Batch:
        """The batch that this sample waits for."""
        return self.batches.get(sample.line_id or SHARED, Batch()) if sample is not None else Batch()

    def journey(self, turn: Turn) -> Journey:
        judgement = self.judgements.get(turn.pk)
        batch = self.batch(judgement.sample if judgement else None)
        far = tell(turn, judgement, self.ballots.get(turn.pk, Ballot()), batch)
        if turn.status == Turn.Status.JUDGED:
            far = replace(far, beside=beside(judgement), guess=self.guesses.get(turn.pk))
        if judgement is None or judgement.sample is None:
            return far
        sample = judgement.sample
        removed = redaction.number(sample.redactions)
        return replace(far, removed=removed, line=sample.line_id or SHARED, spent=spent(judgement))


def journey(turn: Turn) -> Journey:
    """How far this turn has come."""
    return journeys([turn])[turn.pk]


def journeys(
    turns: Iterable[Turn], hints: Iterable[Hint] | None = None, votes: Iterable[Vote] | None = None
) -> dict[UUID, Journey]:
    """How far each of these turns has come, in a fixed number of queries. `hints` and `votes`, by their number: theirs,
    where they are known."""
    turns = list(turns)
    told = known(turns, hints, votes)
    return {turn.pk: told.journey(turn) for turn in turns}


def known(turns: Iterable[Turn], hints: Iterable[Hint] | None = None, votes: Iterable[Vote] | None = None) -> Known:
    """All that a journey is told from, in a fixed number of queries for each line."""
    judged = (Turn.Status.JUDGED, Turn.Status.OBSERVED)
    pks = [turn.pk for turn in turns if turn.status in judged]
    written = (
        Judgement.objects.filter(turn__in=pks)
        .select_related("sample__run__checkpoint", "sample__line")
        .annotate(is_emptied=ExpressionWrapper(Q(sample__response_ids=[]), BooleanField()))
        .defer("teacher", "evidence", *(f"sample__{name}" for name in LONG))
    )
    judgements = {judgement.turn_id: judgement for judgement in written}
    if votes is None:
        votes = Vote.objects.filter(turn__in=pks).defer("raw").order_by("pk") if pks else ()
    ballots = count_votes(votes)
    made = [one.sample for one in judgements.values() if one.sample is not None]
    ready = [sample for sample in made if sample.status == Sample.Status.READY]
    waits = {sample.line_id or SHARED: sample.line.recipe if sample.line else {} for sample in ready}
    if hints is None:
        hints = hints_on(pks) if pks else ()
    return Known(judgements, ballots, next_batches(waits), guesses_among(hints, pks))


def hints_on(pks: Sequence[UUID]) -> list[Hint]:
    """The hints on these turns that stand, or wait for a person."""
    found = Hint.objects.filter(turn__in=pks).exclude(status=Hint.Status.REJECTED)
    return list(found.defer("teacher").order_by("pk"))


def guesses_among(hints: Iterable[Hint], pks: Sequence[UUID]) -> dict[UUID, Hint]:
    """Of these, by turn, the one that a judge worded and that no person has decided on."""
    guessed = (hint for hint in hints if hint.decided_by_id is None and hint.source != Hint.Source.PERSON)
    return {hint.turn_id: hint for hint in guessed if hint.turn_id in pks}


def next_batches(recipes: Mapping[str, Mapping[str, Any]]) -> dict[str, Batch]:
    """What waits in each of these lines, named with its own recipe. One whose recipe cannot be used fills no batch,
    and nothing has a place."""
    found = {}
    for line, recipe in line_recipes.recipes_from(recipes).items():
        filling, waiting = batches.queue(recipe, line)
        found[line] = Batch(filling, {pk: place for place, pk in enumerate(waiting, start=1)})
    return found


def spent(judgement: Judgement) -> str:
    """Why nothing more that is said of a reply can teach; empty where it can. Late feedback teaches once more."""
    if judgement.sample is None or judgement.sample.status != Sample.Status.TRAINED:
        return ""
    if getattr(judgement, "is_emptied", False):
        return _("What this reply taught was erased, so it teaches nothing more.")
    return _("This reply has taught twice already, so it teaches nothing more.") if judgement.learned_id else ""
