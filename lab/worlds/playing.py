"""Play attempts in one process: the world, the renderer, the reader of calls, and the embedded engine's own batcher.

It is what the product does between a client's message and its answer, without HTTP and rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chat.rendering import calling
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from environments.worlds.base import Attempt, Call, Message, Outcome, Task, World
from gpu_workers.embedded.batching import Batcher
from gpu_workers.embedded.generate_requests import Ask
from gpu_workers.embedded.model import Model
from gpu_workers.embedded.sampling import Params
from gpu_workers.embedded.sequences import StepOutput

AT_ONCE = 64
"""Replies that are written at once."""
ROOM = 1 << 20
"""Tokens of keys and values that may be kept: more than a batch of the tiny model ever has."""
THREADS = 2
"""In which worlds do what is asked of them: most of it is done by sandboxes and browsers."""
CHUNK = 4096
"""Prompt tokens that a step reads: no person watches a reply grow."""


@dataclass(frozen=True)
class Reply:
    """What the engine was asked and gave."""

    prompt_ids: list[int]
    ids: list[int]
    logprobs: list[float]  # T = 1


@dataclass
class Played:
    """An attempt that is over."""

    task: Task
    replies: list[Reply] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """One a reply: what the world said of it, -1 to 1; 0 where it said nothing."""
    outcome: Outcome = field(default_factory=lambda: Outcome("cancelled", None))

    @property
    def is_solved(self) -> bool:
        return self.outcome.ending == "solved"


@dataclass
class _Going:
    """An attempt that is not over."""

    played: Played
    attempt: Attempt
    messages: list[Message]
    seed: int
    is_over: bool = False


class Player:
    """Play with one model, whose weights may change between two rounds of play. A context manager: it has a thread."""

    def __init__(self, model: Path, *, max_new_tokens: int = 24) -> None:
        self.renderer = Renderer(model)
        self.max_new_tokens = max_new_tokens
        self._folder = str(model)
        self._batcher = Batcher(
            Model(str(model)),
            lambda ids, skip, spaces: self.renderer.decode(ids, controls=not skip),
            max_running=AT_ONCE,
            max_tokens=ROOM,
            weight_version="0",
            chunk=CHUNK,
        )

    def __enter__(self) -> Self:
        self._batcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._batcher.stop()

    def take(self, weights: Mapping[str, Any]) -> None:
        """Play with these weights from now on, by the names that the model has for them."""
        self._batcher.update(dict(weights), self._folder, None, abort=False).result()

    def play(self, world: World, tasks: Sequence[Task], seed: int) -> list[Played]:
        """Try each of these tasks once, at temperature 1, as many side by side as the world has room for."""
        with ThreadPoolExecutor(THREADS) as threads:
            return [
                played
                for first in range(0, len(tasks), world.parallel)
                for played in self._side_by_side(world, tasks[first : first + world.parallel], first, seed, threads)
            ]

    def _side_by_side(
        self, world: World, tasks: Sequence[Task], first: int, seed: int, threads: ThreadPoolExecutor
    ) -> list[Played]:
        def begin(at: int, task: Task) -> _Going:
            attempt = world.open(task, seed + at)
            return _Going(Played(task), attempt, list(attempt.opening), seed * 1000 + at * 16)

        def end(one: _Going) -> Played:
            one.played.outcome = one.attempt.outcome(is_truncated=not one.is_over)
            one.attempt.close()
            return one.played

        going = list(threads.map(begin, range(first, first + len(tasks)), tasks))
        for turn in range(world.horizon):
            open_ones = [one for one in going if not one.is_over]
            if open_ones:
                self._turn(open_ones, turn, threads)
        return list(threads.map(end, going))

    def _turn(self, going: Sequence[_Going], turn: int, threads: ThreadPoolExecutor) -> None:
        """One reply of each, and what came of it."""
        tools = [dict(tool) for tool in going[0].attempt.tools]
        form = calling.form(self.renderer.style, self.renderer.opening, tools, {})
        prompts = [self.renderer.prompt_ids(one.messages, form.tools, form.opened) for one in going]
        seeds = [one.seed + turn for one in going]
        said = self._generate(prompts, seeds, form.sampling.get("skip_special_tokens", True))
        answers = []
        for one, prompt, output in zip(going, prompts, said, strict=True):
            one.played.replies.append(Reply(prompt, output.ids, [logprob or 0.0 for logprob, _ in output.logprobs]))
            reader = Reader.of(form.tools, form.asked)
            reader.feed(output.text)
            reader.end()
            answers.append(reader.message)
        list(threads.map(self._act, going, answers))

    def _act(self, one: _Going, message: Message) -> None:
        one.messages.append(message)
        if not message.get("tool_calls"):
            seen = [one.attempt.hear(message.get("content") or "")]
            one.messages.append({"role": "user", "content": seen[0].text})
        else:
            seen = []
            for call in message["tool_calls"]:
                seen.append(one.attempt.act(Call.of(call)))
                one.messages.append({"role": "tool", "tool_call_id": call["id"], "content": seen[-1].text})
                if seen[-1].is_over:
                    break
        one.is_over = seen[-1].is_over
        one.played.scores.append(sum(each.score or 0.0 for each in seen) / len(seen))

    def _generate(self, prompts: Sequence[list[int]], seeds: Sequence[int], skips: bool) -> list[StepOutput]:
        done: dict[int, StepOutput] = {}
        is_done = threading.Event()

        def sink(at: int) -> Callable[[StepOutput], None]:
            def take(output: StepOutput) -> None:
                done[at] = output
                if len(done) == len(prompts):
                    is_done.set()

            return take

        asks = []
        for at, (ids, seed) in enumerate(zip(prompts, seeds, strict=True)):
            params = Params(max_new_tokens=self.max_new_tokens, sampling_seed=seed, skip_special_tokens=skips)
            asks.append((Ask(str(at), tuple(ids), params, return_logprob=True, interval=0), sink(at)))
        self._batcher.submit(asks)
        is_done.wait()
        if self._batcher.failed is not None:
            raise RuntimeError("the engine has failed") from self._batcher.failed
        return [done[at] for at in range(len(prompts))]
