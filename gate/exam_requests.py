"""How an exam asks the engine: before votes and after people, and once more where the engine forgot an adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from core import statistics
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterInvalid, AdapterMissing
from gpu_workers.types import Completion, Sampling

Answer = TypeVar("Answer")

PRIORITY = 5
"""Before votes, after people."""

TEMPERATURE = 0.7
"""At which replies are sampled, as chat samples; each prompt has one fixed seed for both sides."""


class Unaskable(AdapterInvalid):
    """The weights of one of those who are asked cannot be loaded: `who` says whose."""

    def __init__(self, who: Checkpoint, why: str) -> None:
        super().__init__(why)
        self.who = who


def run(engine: Engine, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do what has to be awaited, in a loop of its own."""

    async def once() -> Answer:
        try:
            return await ask()
        finally:
            await engine.aclose()

    return asyncio.run(once())


async def generate(who: Checkpoint | None, engine: Engine, prompt_ids: Sequence[int], sampling: Sampling) -> Completion:
    """A reply; None asks the base."""

    async def ask() -> Completion:
        adapter = who.adapter or None if who else None
        return await engine.generate(prompt_ids, sampling, adapter=adapter, priority=PRIORITY)

    return await _with_weights(who, engine, ask)


async def score(
    who: Checkpoint | None, engine: Engine, prompt_ids: Sequence[int], response_ids: Sequence[int]
) -> float:
    """The mean log-prob a token of these ids; None asks the base."""
    return statistics.mean(await logprobs(who, engine, prompt_ids, response_ids))


async def logprobs(
    who: Checkpoint | None, engine: Engine, prompt_ids: Sequence[int], response_ids: Sequence[int]
) -> tuple[float, ...]:
    async def ask() -> tuple[float, ...]:
        adapter = who.adapter or None if who else None
        return (await engine.score(prompt_ids, response_ids, adapter=adapter, priority=PRIORITY)).logprobs

    return await _with_weights(who, engine, ask)


async def _with_weights(who: Checkpoint | None, engine: Engine, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask; if the engine has forgotten the adapter (it was started again), have it loaded and ask once more. Raises
    Unaskable where it cannot be loaded."""
    try:
        return await ask()
    except AdapterMissing:
        if who is None:
            raise
        try:
            await ensure_loaded(who, engine)
        except AdapterInvalid as failure:
            raise Unaskable(who, str(failure)) from failure
        return await ask()
