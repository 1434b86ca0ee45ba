"""Who is asked for votes: the policy's own base through its chat template, or any OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from django.conf import settings

from chat.rendering import Renderer
from gpu_workers import engines
from gpu_workers.engine import Engine
from gpu_workers.errors import EngineRefused, EngineUnavailable
from gpu_workers.openai_chat import OpenAIChat
from gpu_workers.types import Sampling

Messages = Sequence[Mapping[str, str]]

TEMPERATURE = 0.6
"""Votes must differ to be votes, and still mean what they say. The reference's."""

PRIORITY = 0
"""The engine serves votes when nobody waits for a reply."""

AFTERTHOUGHT = -1
"""Votes that decide nothing any more come after those that do."""


@dataclass(frozen=True)
class Said:
    """One judge's answer, or why there is none."""

    text: str = ""
    tokens: int = 0
    seconds: float = 0.0
    failure: str = ""
    unreachable: bool = False


class Judge(Protocol):
    """Somebody who reads chat messages and answers in text."""

    name: str

    async def answer(self, messages: Messages, sampling: Sampling, priority: int) -> tuple[str, int]:
        """The text and how many tokens it took. Raises EngineUnavailable or EngineRefused."""
        ...

    async def aclose(self) -> None: ...


class BaseJudge:
    """The model as it came, without adapters: what is taught does not mark its own work."""

    def __init__(self, engine: Engine, renderer: Renderer) -> None:
        self.engine, self.renderer = engine, renderer
        self.name = f"{settings.MODEL_NAME}@0"

    async def answer(self, messages: Messages, sampling: Sampling, priority: int) -> tuple[str, int]:
        prompt_ids = self.renderer.prompt_ids(messages)
        completion = await self.engine.generate(prompt_ids, sampling, priority=priority)
        return completion.text, len(completion.ids)

    async def aclose(self) -> None:
        await self.engine.aclose()


class OutsideJudge:
    """A model behind JUDGE_URL. Text leaves this process for that server."""

    def __init__(self, server: OpenAIChat) -> None:
        self.server = server
        self.name = f"{server.model} at {urlsplit(server.url).netloc}"[:120]

    async def answer(self, messages: Messages, sampling: Sampling, priority: int) -> tuple[str, int]:
        answer = await self.server.chat(messages, sampling)
        return answer.text, answer.completion_tokens

    async def aclose(self) -> None:
        await self.server.aclose()


def judge() -> Judge:
    """Who judges in this installation."""
    who = engines.judge()
    if isinstance(who, OpenAIChat):
        return OutsideJudge(who)
    return BaseJudge(who, Renderer.for_model(settings.MODEL))


def ask(who: Judge, questions: Sequence[Messages], *, priority: int = PRIORITY) -> list[Said]:
    """Put all questions at once and wait for every answer, each at most JUDGE_DEADLINE_S. Never raises for a judge."""
    sampling = Sampling(max_new_tokens=settings.JUDGE_MAX_NEW_TOKENS, temperature=TEMPERATURE)

    async def one(messages: Messages) -> Said:
        start = time.monotonic()
        try:
            async with asyncio.timeout(settings.JUDGE_DEADLINE_S):
                text, tokens = await who.answer(messages, sampling, priority)
        except TimeoutError:
            failure, unreachable = f"too late: no answer within {settings.JUDGE_DEADLINE_S:g} s", False
        except EngineUnavailable as error:
            failure, unreachable = f"unreachable: {error}", True
        except EngineRefused as error:
            failure, unreachable = f"refused: {error}", False
        else:
            return Said(text, tokens, time.monotonic() - start)
        return Said(seconds=time.monotonic() - start, failure=failure[:200], unreachable=unreachable)

    async def all_of_them() -> list[Said]:
        try:
            return list(await asyncio.gather(*map(one, questions)))
        finally:
            await who.aclose()

    return asyncio.run(all_of_them())
