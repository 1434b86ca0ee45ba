"""A plain tool loop: the model's reply, its calls one after another, their results, and again until it is over."""

from __future__ import annotations

import asyncio
import hashlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Literal, ParamSpec, TypeVar

from environments.client import Client, Completion, Refused
from environments.worlds.base import Attempt, Call, Message, WorldFailed
from environments.worlds.width import Room

Given = ParamSpec("Given")
Result = TypeVar("Result")

FULL = "context_length_exceeded"

LONGEST_CALL_S = 3600.0
"""A world that has been at one thing for longer is taken to hang."""


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn."""

    temperature: float = 1.0
    max_tokens: int = 256
    """The longest reply."""


@dataclass
class Course:
    """How an attempt has gone so far."""

    steps: int = 0
    invalid: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    exit_status: int | None = None
    """Of another's harness."""
    note: str = ""
    """How that one ended, where there is a sentence."""


class Hand:
    """The one thread in which an attempt's world is asked, from its opening to its close."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "attempt")
        self._until: float | None = None

    @property
    def hangs(self) -> bool:
        """Whether the world is still at what it should have done long ago."""
        return self._until is not None and monotonic() > self._until

    async def do(self, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
        """Have the world do it. Called off meanwhile, this waits for its end: no call of a world is left half-way."""
        return await self.do_within(LONGEST_CALL_S, work, *given, **named)

    async def do_within(
        self, most_s: float, work: Callable[Given, Result], *given: Given.args, **named: Given.kwargs
    ) -> Result:
        """The same of what may take so long before it is taken to hang."""
        doing = asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *given, **named))
        self._until = monotonic() + most_s
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            await asyncio.wait([doing])
            raise
        finally:
            self._until = None

    def end(self) -> None:
        self._pool.shutdown(wait=False)


@dataclass(frozen=True)
class Talk:
    """One attempt's agent: Talkback with the episode's own key."""

    client: Client
    """With the player's key, which claims actions."""
    agent: Client
    """With the episode's key, which asks for replies."""
    episode: str
    sampling: Sampling
    seeds: Callable[[int], int]
    """Of each step, from 0."""
    replies: Room
    """What is written at once, over all attempts."""
    horizon: int
    sees: bool = False
    """Whether the model is shown pictures."""

    async def play(self, attempt: Attempt, hand: Hand, course: Course) -> Literal["", "horizon", "context"]:
        """Let the agent act until the attempt is over; what cut it off, where something did. `course` is kept as it
        goes, so that it is known whatever is raised. Raises what the client and the world raise."""
        history: list[Message] = [*attempt.opening]
        history[-1] = await self._shown(history[-1], attempt, hand)
        while course.steps < self.horizon:
            try:
                reply = await self._ask(history, attempt.tools, course.steps)
            except Refused as refused:
                if refused.said == FULL:
                    return "context"
                raise
            course.steps += 1
            course.prompt_tokens += reply.prompt_tokens
            course.completion_tokens += reply.completion_tokens
            if reply.finish_reason == "length" and reply.completion_tokens < self.sampling.max_tokens:
                return "context"  # the reply was given what room was left
            if await self._act(reply, attempt, hand, course, history):
                return ""
        return "horizon"

    async def _ask(self, history: Sequence[Message], tools: Sequence[Mapping[str, Any]], step: int) -> Completion:
        async with self.replies:
            sent_at = monotonic()
            reply = await self.agent.complete(
                history,
                seed=self.seeds(step),
                max_tokens=self.sampling.max_tokens,
                temperature=self.sampling.temperature,
                tools=tools,
                name=f"{self.episode}:{step}",
            )
            self.replies.width.answered(sent_at)
            return reply

    async def _act(
        self, reply: Completion, attempt: Attempt, hand: Hand, course: Course, history: list[Message]
    ) -> bool:
        """Do what a reply asks, or take its words. True where that was the end."""
        calls = [Call.of(said) for said in reply.tool_calls]
        history.append(
            {"role": "assistant", "content": reply.text}
            | ({"tool_calls": [dict(said) for said in reply.tool_calls]} if calls else {})
        )
        course.invalid += not calls or not all(is_valid(call, attempt.tools) for call in calls)
        scores: list[float] = []
        for call in calls or (None,):
            if not await self.client.claim(self.episode, reply.id, call.id if call else ""):
                raise WorldFailed(
                    "An action was claimed before, by another player or by a request whose answer was lost: it is not "
                    "known whether it happened, and it happens at most once."
                )
            seen = await (hand.do(attempt.act, call) if call else hand.do(attempt.hear, reply.text))
            scores += [seen.score] if seen.score is not None else []
            course.scores |= {reply.id: sum(scores) / len(scores)} if scores else {}
            if seen.is_over:
                return True
            said = {"role": "tool", "tool_call_id": call.id} if call else {"role": "user"}
            history.append({**said, "content": seen.text})
        history[-1] = await self._shown(history[-1], attempt, hand)
        return False

    async def _shown(self, message: Message, attempt: Attempt, hand: Hand) -> Message:
        """What is said to the agent, and for a model that sees how it looks now."""
        picture = await hand.do(attempt.picture) if self.sees else None
        if picture is None:
            return message
        url = f"data:image/png;base64,{b64encode(picture).decode()}"
        words = {"type": "text", "text": message["content"]}
        return {**message, "content": [words, {"type": "image_url", "image_url": {"url": url}}]}


def is_valid(call: Call, tools: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a tool of that name takes arguments of those names.

    >>> add = {"function": {"name": "add", "parameters": {"properties": {"a": {}}, "required": ["a"]}}}
    >>> [is_valid(Call("1", "add", text), [add]) for text in ('{"a": 1}', '{"b": 1}', "1")]
    [True, False, False]
    """
    given = call.read()
    for tool in tools:
        function = tool["function"]
        if function["name"] == call.name and given is not None:
            parameters = function.get("parameters") or {}
            return set(parameters.get("required", ())) <= set(given) <= set(parameters.get("properties", {}))
    return False


def seed_of(*parts: object) -> int:
    """A seed below 2³¹ that depends on each part and on nothing else, on any machine.

    >>> seed_of(1, "a", 2) == seed_of(1, "a", 2) != seed_of(1, "a", 3)
    True
    """
    text = "\0".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
