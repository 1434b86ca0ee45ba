"""One conversation: ask, ask for a few changes, accept or give up, done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from environments.tasks import Task
from environments.users import Said, User

Message = dict[str, Any]

FAREWELL_TOKENS = 8
"""What the answer to a last word may take. It is cut off there, so nobody learns from it."""


class Completion(Protocol):
    """What a session reads of an answer."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def completion_tokens(self) -> int: ...
    @property
    def tool_calls(self) -> Sequence[Mapping[str, Any]]:
        """As the API gives them: {"id", "type": "function", "function": {"name", "arguments"}}."""


class Client(Protocol):
    """The door to Talkback, or to any server that speaks the same."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        seed: int | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        session: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Completion: ...

    async def give(self, completion_id: str, *, rating: str | None = None, guidance: str | None = None) -> None: ...


@dataclass(frozen=True)
class Exchange:
    """One reply and what was said of it. `said` is None where nobody answers: a tool does, or the person has left."""

    task_id: str
    messages: tuple[Message, ...]  # what was sent
    reply: str
    finish_reason: str
    completion_id: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    said: Said | None


async def play(
    client: Client,
    user: User,
    task: Task,
    *,
    most_rewrites: int = 2,
    seed: int,
    model: str | None = None,
    max_tokens: int,
    temperature: float | None = None,
    thumb: bool = False,
) -> list[Exchange]:
    """Play one session and give back every exchange of it.

    The whole history goes with every request, as a stock client sends it, so what the person says is the next state of
    the reply before. The last word is sent too, and its answer cut short: that exchange has no `said`. With `thumb` the
    last reply that was heard gets one, up where it was accepted, down where the person gave up.
    """
    history: list[Message] = [{"role": "user", "content": user.opening(task)}]
    played: list[Exchange] = []
    for turn in range(most_rewrites + 1):
        answer = await client.complete(
            history, model=model, seed=seed + turn, max_tokens=max_tokens, temperature=temperature
        )
        said = await user.hear(answer.text, finished=answer.finish_reason == "stop")
        played.append(_exchange(task, history, answer, said))
        history += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": said.text}]
        if said.asked is None:
            break
    if thumb:
        await client.give(played[-1].completion_id, rating="up" if said.accepts else "down")
    farewell = await client.complete(
        history, model=model, seed=seed + most_rewrites + 1, max_tokens=FAREWELL_TOKENS, temperature=temperature
    )
    return [*played, _exchange(task, history, farewell, None)]


def _exchange(task: Task, history: Sequence[Message], answer: Completion, said: Said | None) -> Exchange:
    return Exchange(
        task_id=task.id,
        messages=tuple(history),
        reply=answer.text,
        finish_reason=answer.finish_reason,
        completion_id=answer.id,
        model=answer.model,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        said=said,
    )
