"""Is it liked no less? Replies that people judged, under both."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from chat.rendering.renderer import Renderer
from feedback.models import Feedback
from gate import exam_requests
from gate.findings import RATED, Check, no_worse
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from judge.samples import pooling
from training import batches
from training.models import Run

EXAMPLES = 8
"""The run's own rated replies and rewrites that preference is measured with."""


@dataclass(frozen=True)
class Rated:
    """A reply that people judged, by its ids; `sign` 1 for what is wanted, -1 for what is not."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    sign: int


def prefer_rated(exam: Examination, rated: Sequence[Rated], engine: Engine) -> list[Check]:
    """Whether the candidate likes what people liked, and dislikes what they disliked, no less than live does."""
    if not rated:
        return []

    async def change(reply: Rated) -> float:
        before, after = await asyncio.gather(
            *(
                exam_requests.score(who, engine, reply.prompt_ids, reply.response_ids)
                for who in (exam.against, exam.checkpoint)
            )
        )
        return reply.sign * (after - before)

    async def changes() -> list[float]:
        return list(await asyncio.gather(*map(change, rated)))

    return [no_worse("rated replies", exam_requests.run(engine, changes), RATED)]


def rated_of(run: Run | None, renderer: Renderer) -> list[Rated]:
    """What people wrote instead, and the run's rated replies, as far as the exam has time for them."""
    if run is None:
        return []
    turns: dict[int | None, UUID] = dict(pooling.judged(run).values_list("sample", "turn"))
    rewrites: dict[UUID | None, str] = dict(
        Feedback.objects.standing()
        .filter(turn__in=pooling.judged(run).values("turn"), kind=Feedback.Kind.REWRITE)
        .values_list("turn_id", "text")
    )
    found = []
    for sample in batches.learned(run).exclude(response_ids=[]):
        room = renderer.context_length - len(sample.prompt_ids)
        ids = renderer.encode(rewrites.get(sample.origin or turns.get(sample.pk), ""))
        if ids and len(ids) <= room:
            found.append(Rated(sample.prompt_ids, ids, 1))
        elif sample.reward and len(sample.response_ids) <= room:
            found.append(Rated(sample.prompt_ids, sample.response_ids, 1 if sample.reward > 0 else -1))
    return found[:EXAMPLES]
