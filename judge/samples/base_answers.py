"""The base's answers to ordinary prompts, asked for a few at a time while no person waits for anything.

A recipe that rehearses mixes them into its runs (`training/rehearsals.py`). Nothing of any conversation is in
them, and none of the exam's prompts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint, Line
from core.textfiles import read_lines
from gpu_workers.engine.interface import Engine
from gpu_workers.types import Completion, Sampling
from judge.sittings import sitting
from judge.votes import judges
from training import hours, line_recipes, rehearsals
from training.models import Rehearsal

FILE = Path(__file__).with_name("base_answers.txt")

HANDFUL = 4
"""Prompts asked at once: a person may want to chat any moment."""

SEAT_S = 300
"""How long the seat of a worker that died stays taken."""


@cache
def prompts() -> tuple[str, ...]:
    """All of them, in the order of the file."""
    return tuple(line for line in read_lines(FILE) if line)


def is_due() -> bool:
    """True when a line's recipe rehearses, prompts are left to be answered, and there is nothing better to do.

    Where every weight was swapped in place, the base answers no person, and so not here either.
    """
    return (
        _is_wanted()
        and rehearsals.pool().count() < len(prompts())
        and hours.is_idle()
        and not Checkpoint.objects.filter(kind=Checkpoint.Kind.FULL, status=Checkpoint.Status.LIVE).exists()
    )


def standing() -> tuple[int, int]:
    """How many prompts this base has answered, and of how many that any line's recipe wants."""
    return rehearsals.pool().count(), len(prompts()) if _is_wanted() else 0


def _is_wanted() -> bool:
    names = Line.objects.filter(retired_at=None).values_list("name", flat=True)
    return any(line_recipes.recipe_of(name).rehearsal for name in names)


def answer(*, engine: Engine, renderer: Renderer) -> bool:
    """Have the base answer a handful of prompts, and keep what it said. True when more are left.

    At temperature 1, so that the recorded log-probs are the base's own, and what is rehearsed is what it would say.
    One at a time everywhere; raises EngineUnavailable, and nothing is lost but the handful.
    """
    with sitting("rehearsal", for_s=SEAT_S) as seat:
        if seat is None or not is_due():
            return False
        known = {tuple(ids) for ids in rehearsals.pool().values_list("prompt_ids", flat=True)}
        asked = [renderer.prompt_ids([{"role": "user", "content": prompt}]) for prompt in prompts()]
        left = [ids for ids in asked if tuple(ids) not in known]
        told = asyncio.run(_ask(left[:HANDFUL], engine))
        Rehearsal.objects.bulk_create(
            Rehearsal(
                model=rehearsals.base(), prompt_ids=ids, response_ids=list(said.ids), logprobs=list(said.logprobs)
            )
            for ids, said in zip(left, told, strict=False)
            if said.ids
        )
        return len(left) > HANDFUL


async def _ask(handful: Sequence[list[int]], engine: Engine) -> list[Completion]:
    sampling = Sampling(max_new_tokens=rehearsals.TOKENS, temperature=1.0)
    try:
        asked = (engine.generate(ids, sampling, priority=judges.AFTERTHOUGHT) for ids in handful)
        return await asyncio.gather(*asked)
    finally:
        await engine.aclose()
