"""The same prompts, side by side: both answer, and the base reads what they said."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from chat.rendering.renderer import Renderer
from core import statistics
from gate import exam_requests, meter, reply_figures
from gate.models import Examination
from gpu_workers.engine.interface import Engine
from gpu_workers.types import Completion, Sampling
from judge.hints import hint_words
from judge.samples import exam_questions, pooling
from training import batches
from training.config import Gate
from training.models import Run

WISHES = 2
"""The run's own hints that preference is measured with; each costs two scores a reply."""


def compare(
    exam: Examination,
    prompts: Sequence[exam_questions.ExamQuestion],
    wishes: Sequence[str],
    known: Collection[tuple[int, ...]],
    engine: Engine,
    renderer: Renderer,
    limits: Gate,
) -> None:
    """Have both answer these prompts and the base read the replies; keep the pairs. Pairs that are there already are
    not asked again. `known` are the token runs of what the candidate was trained on."""
    there = {pair["id"] for pair in exam.pairs}
    todo = [question for question in prompts if question.id not in there]
    if not todo:
        return
    against, candidate = exam.against, exam.checkpoint
    seeds = {question.id: 1000 + number for number, question in enumerate(exam_questions.questions())}
    metered = {question.id for question in exam_questions.questions()[: min(limits.meter, limits.prompts)]}

    async def pair(question: exam_questions.ExamQuestion) -> dict[str, Any]:
        messages = [{"role": "user", "content": question.prompt}]
        prompt_ids = renderer.prompt_ids(messages)
        hinted = [renderer.prompt_ids(hint_words.placed(messages, wish)) for wish in wishes]
        sampling = Sampling(
            max_new_tokens=limits.max_new_tokens, temperature=exam_requests.TEMPERATURE, seed=seeds[question.id]
        )
        replies = await asyncio.gather(
            *(exam_requests.generate(who, engine, prompt_ids, sampling) for who in (against, candidate))
        )
        found: dict[str, Any] = {"id": question.id, "prompt": question.prompt}
        for side, reply in zip(("live", "candidate"), replies, strict=True):
            found |= {side: reply.text, f"{side}_tokens": len(reply.ids)}
            found[f"{side}_repeated"] = round(reply_figures.repeated(reply.ids), 4)
            found |= {f"{side}_{name}": value for name, value in (await read(prompt_ids, hinted, reply)).items()}
            if known:
                found[f"{side}_copied"] = round(reply_figures.copied(reply.ids, known, meter.COPIED), 4)
        if question.id in metered and all(reply.ids for reply in replies):
            found |= {"live_own": found["live_plain"]} | await sure(prompt_ids, *replies)
        return found

    async def sure(prompt_ids: Sequence[int], said: Completion, anew: Completion) -> dict[str, float]:
        """What each gives its own reply, and the candidate that of live, in nats per token."""
        asks = {"candidate_own": (candidate, anew), "candidate_on_live": (candidate, said)}
        if against.adapter:  # of the base it is known: it has read the reply
            asks["live_own"] = (against, said)
        values = await asyncio.gather(
            *(exam_requests.score(who, engine, prompt_ids, reply.ids) for who, reply in asks.values())
        )
        return {name: round(value, 4) for name, value in zip(asks, values, strict=True)}

    async def read(
        prompt_ids: Sequence[int], hinted: Sequence[Sequence[int]], reply: Completion
    ) -> dict[str, float | None]:
        """Under the base: the reply's mean log-prob a token as asked, with the hints, and what the hints pull."""
        if not reply.ids:
            return {"fluency": None, "pull": None, "plain": None}
        plain, *under = await asyncio.gather(
            *(exam_requests.score(None, engine, ids, reply.ids) for ids in (prompt_ids, *hinted))
        )
        found = {"fluency": round(statistics.mean(under or [plain]), 4), "plain": round(plain, 4)}
        return found | {"pull": round(statistics.mean(under) - plain, 4) if under else None}

    async def pairs() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(pair, todo)))

    exam.pairs = [*exam.pairs, *exam_requests.run(engine, pairs)]


def wishes_of(run: Run | None) -> list[str]:
    """The run's most frequent hints that speak of any reply; a rewrite speaks of one."""
    if run is None:
        return []
    said = pooling.judged(run).filter(hint_from__in=("guidance", "votes"))
    general = [hint for hint in said.values_list("hint", flat=True) if not hint_words.is_rewrite(hint)]
    return sorted(dict.fromkeys(general), key=general.count, reverse=True)[:WISHES]


def grams_of(run: Run | None) -> set[tuple[int, ...]]:
    """The token runs of what the run trained on: the replies, and what people wrote instead."""
    known: set[tuple[int, ...]] = set()
    if run is not None:
        for response_ids, rewrite_ids in batches.learned(run).values_list("response_ids", "rewrite_ids"):
            known |= reply_figures.grams(response_ids, meter.COPIED) | reply_figures.grams(
                rewrite_ids or (), meter.COPIED
            )
    return known
