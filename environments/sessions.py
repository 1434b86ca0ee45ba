"""One conversation: ask, ask for a few changes, accept or give up, done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from environments.tasks import Task
from environments.users import Keeper, Said, User
from environments.workspace import TOOLS, Workspace

Message = Mapping[str, Any]

FAREWELL_TOKENS = 8
"""What the answer to a last word may take. It is cut off there, and no person writes in its place: it teaches
nothing."""
MOST_CALLS = 8
"""Replies in a row that call tools. After these the person is answered with what there is."""


class Completion(Protocol):
    """What a session reads of an answer."""

    @property
    def id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def finish_reason(self) -> str:
        """stop | length | tool_calls"""

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
        done: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        name: str | None = None,
    ) -> Completion: ...

    async def give(
        self,
        completion_id: str,
        *,
        rating: str | None = None,
        guidance: str | None = None,
        correction: str | None = None,
    ) -> None: ...


@dataclass(frozen=True)
class Exchange:
    """One reply and what was said of it.

    `said` is None where no person answers: the reply called tools (`results` holds what they gave back, in order), or
    it was the answer to a last word.
    """

    task_id: str
    messages: tuple[Message, ...]  # what was sent
    reply: str
    finish_reason: str
    completion_id: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    said: Said | None
    results: tuple[str, ...] = ()


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
    session: str | None = None,
    thumb: bool = False,
    name: str = "",
    workspace: Workspace | None = None,
) -> list[Exchange]:
    """Play one session and give back every exchange of it.

    The whole history goes with every request, as a stock client sends it, so what the person says is the next state of
    the reply before. The last word is sent too, and its answer cut short: that exchange has no `said`. With `thumb` the
    last reply that was heard gets one: up where it was accepted, down where it was not. What a person would have had
    instead goes into the correction box before their next message.

    A task with files has tools to read and write them, in `workspace` or in one of its own; what a tool gives back is
    a next state. What was accepted is then asked to be saved, and looked for in the file.

    Seeds count up from `seed`, one a request. `name` makes requests repeatable: one that was sent before by the same
    name is the same turn (the client's Idempotency-Key).
    """
    talk = _Talk(client, task, seed, name, {"model": model, "temperature": temperature, "session": session}, max_tokens)
    talk.history.append({"role": "user", "content": user.opening(task)})
    if task.files and workspace is None:
        with Workspace(dict(task.files)) as workspace:
            said = await _kept(talk, user, workspace, await _heard(talk, user, most_rewrites, workspace))
    elif workspace is not None:
        said = await _kept(talk, user, workspace, await _heard(talk, user, most_rewrites, workspace))
    else:
        said = await _heard(talk, user, most_rewrites, None)
    if thumb:
        heard = next(each for each in reversed(talk.played) if each.said is not None)
        await client.give(heard.completion_id, rating="up" if said.accepts else "down")
    await talk.ask(most_tokens=FAREWELL_TOKENS, done=True)
    return talk.played


async def _heard(talk: _Talk, user: User, most_rewrites: int, workspace: Workspace | None) -> Said:
    """Ask until the person accepts, gives up, or has asked for as many changes as they may."""
    while True:
        reply = await talk.work(workspace)
        said = await user.hear(reply.text, finished=reply.finish_reason == "stop")
        if said.instead is not None:
            await talk.client.give(reply.id, correction=said.instead)
        talk.hear(said)
        most_rewrites -= 1
        if said.asked is None or most_rewrites < 0:
            return said


async def _kept(talk: _Talk, user: User, workspace: Workspace, said: Said) -> Said:
    """What was accepted is to stand in the task's file, below what stood there."""
    if not said.accepts or not talk.task.file:
        return said
    keeper, file = cast(Keeper, user), talk.task.file
    before = workspace.text(file).rstrip()
    talk.add(await keeper.wants_saved(file))
    await talk.work(workspace)
    after = workspace.text(file).rstrip()
    seen = await keeper.sees(file, saved=after.startswith(before) and len(after) > len(before))
    talk.hear(seen)
    return seen


class _Talk:
    """The history so far, and every exchange of it."""

    def __init__(
        self, client: Client, task: Task, seed: int, name: str, wished: Mapping[str, Any], max_tokens: int
    ) -> None:
        self.client, self.task, self.wished, self.max_tokens = client, task, wished, max_tokens
        self.history: list[Message] = []
        self.played: list[Exchange] = []
        self._seed, self._name = seed, name

    async def ask(
        self, *, most_tokens: int | None = None, tools: Sequence[Mapping[str, Any]] | None = None, done: bool = False
    ) -> Completion:
        number = len(self.played)
        answer = await self.client.complete(
            tuple(self.history),
            seed=self._seed + number,
            max_tokens=most_tokens or self.max_tokens,
            tools=tools,
            done=done,
            name=f"{self._name}:{number}" if self._name else None,
            **self.wished,
        )
        self.played.append(
            Exchange(
                task_id=self.task.id,
                messages=tuple(self.history),
                reply=answer.text,
                finish_reason=answer.finish_reason,
                completion_id=answer.id,
                model=answer.model,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
                said=None,
            )
        )
        return answer

    async def work(self, workspace: Workspace | None) -> Completion:
        """A reply to the person: calls of tools are done on the way, and their results sent back."""
        for _ in range(MOST_CALLS):
            answer = await self.ask(tools=TOOLS if workspace else None)
            if workspace is None or not answer.tool_calls:
                break
            calls = [dict(call) for call in answer.tool_calls]
            results = [workspace.call(call["function"]["name"], call["function"]["arguments"]) for call in calls]
            self.history.append({"role": "assistant", "content": answer.text, "tool_calls": calls})
            self.history += [
                {"role": "tool", "tool_call_id": call["id"], "content": result}
                for call, result in zip(calls, results, strict=True)
            ]
            self.played[-1] = replace(self.played[-1], results=tuple(results))
        else:  # still at its tools: the person has heard nothing
            answer = await self.ask()
        return answer

    def hear(self, said: Said) -> None:
        """What the person says of the last reply."""
        self.played[-1] = replace(self.played[-1], said=said)
        self.history += [
            {"role": "assistant", "content": self.played[-1].reply},
            {"role": "user", "content": said.text},
        ]

    def add(self, text: str) -> None:
        """The person goes on in the same message."""
        said = self.played[-1].said
        assert said is not None
        whole = replace(said, text=f"{said.text} {text}")
        self.played[-1] = replace(self.played[-1], said=whole)
        self.history[-1] = {"role": "user", "content": whole.text}
