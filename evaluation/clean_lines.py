"""How far a clean line is from what it is to replace: both read the same replies to prompts that never train."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_noop

from chat.rendering.renderer import Renderer
from checkpoints.cleaning_rows import Cleaning
from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from core import statistics
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing, EngineRefused, EngineUnavailable
from gpu_workers.types import Sampling
from judge.samples import exam_questions
from judge.sittings import sitting

PRIORITY = 5
"""Before votes, after people: an operator waits to decide."""

PROMPTS = 6
MAX_NEW_TOKENS = 48
SEAT_S = 300


def unmeasured() -> list[int]:
    """Clean lines of which it is not known yet how far they are from what they replace."""
    waits = Cleaning.objects.filter(status=Cleaning.Status.FINISHED, distance={})
    examined = waits.exclude(result=None).exclude(result__status=Checkpoint.Status.CANDIDATE)
    return list(examined.order_by("pk").values_list("pk", flat=True))


def measure(pk: int, *, engine: Engine, renderer: Renderer) -> None:
    """Write how far result and replaced weights of a cleaning are apart. Does nothing where that is known. Raises
    EngineUnavailable; asking again begins anew."""
    with sitting(f"clean line {pk}", for_s=SEAT_S) as seat:
        if seat is None or pk not in unmeasured():
            return
        cleaning = Cleaning.objects.select_related("result", "replaces").get(pk=pk)
        assert cleaning.result is not None  # unmeasured() saw to it
        try:
            found = asyncio.run(_measured(cleaning.replaces, cleaning.result, engine, renderer))
        except AdapterMissing as error:
            raise EngineUnavailable(str(error)) from error
        except (AdapterInvalid, EngineRefused) as error:
            found = {"failure": str(error)}
        Cleaning.objects.filter(pk=pk).update(distance=found)


async def _measured(old: Checkpoint, new: Checkpoint, engine: Engine, renderer: Renderer) -> dict[str, Any]:
    """Each answers the prompts, and both read what each said.

    KL(p‖q) is estimated in nats a token as the mean of log p − log q over what p sampled at temperature 1.
    """
    sides = {"old": old, "new": new}

    async def of_prompt(number: int, question: exam_questions.ExamQuestion) -> dict[str, list[float]]:
        prompt_ids = renderer.prompt_ids([{"role": "user", "content": question.prompt}])
        found: dict[str, list[float]] = {"old": [], "new": [], "apart": []}
        for side, who in sides.items():
            sampling = Sampling(max_new_tokens=MAX_NEW_TOKENS, temperature=1.0, seed=2000 + number)
            reply = await engine.generate(prompt_ids, sampling, adapter=who.adapter or None, priority=PRIORITY)
            if not reply.ids:
                continue
            under = {name: await logprobs(one, prompt_ids, reply.ids) for name, one in sides.items()}
            other = "new" if side == "old" else "old"
            found[side] += [own - its for own, its in zip(under[side], under[other], strict=True)]
            found["apart"] += [abs(own - its) for own, its in zip(under[side], under[other], strict=True)]
        return found

    async def logprobs(who: Checkpoint, prompt_ids: Sequence[int], ids: Sequence[int]) -> Sequence[float]:
        return (await engine.score(prompt_ids, ids, adapter=who.adapter or None, priority=PRIORITY)).logprobs

    try:
        for one in sides.values():
            await ensure_loaded(one, engine)
        asked = enumerate(exam_questions.questions()[:PROMPTS])
        found = await asyncio.gather(*(of_prompt(number, question) for number, question in asked))
    finally:
        await engine.aclose()
    together = {name: [value for one in found for value in one[name]] for name in ("old", "new", "apart")}
    if not (together["old"] and together["new"]):
        return {"failure": gettext_noop("One of the two answered nothing at all.")}
    return {
        "prompts": PROMPTS,
        "tokens": len(together["apart"]),
        "kl_old": round(statistics.mean(together["old"]), 4),
        "kl_new": round(statistics.mean(together["new"]), 4),
        "apart": round(statistics.mean(together["apart"]), 4),
    }
