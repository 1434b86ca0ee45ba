"""Stand in for gpu_workers.engine.interface.Engine: the same calls, no model, answers that a test can predict."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from benchmarks.scripted.boxes import choice_logprobs
from benchmarks.scripted.logprobs import adapter_shift, logprob
from benchmarks.scripted.script import Line, Script
from gpu_workers.engine.interface import PauseMode
from gpu_workers.engine.spare import Spare
from gpu_workers.engine.stamps import weights_in
from gpu_workers.errors import (
    AdapterInvalid,
    AdapterMissing,
    EngineRefused,
    EngineUnavailable,
    NoRoom,
    WeightsExchanged,
)
from gpu_workers.types import Choices, Completion, Delta, Sampling, Scored, Top

Logprobs = Callable[[Sequence[int], Sequence[int], str | None], Sequence[float]]
Likely = Callable[[Sequence[int], Sequence[int], str | None], Sequence[Sequence[int]]]
"""Of a prompt and a response: the likeliest ids at each place of the response, likeliest first."""


@dataclass(frozen=True)
class Call:
    """One question that was asked: `kind` is generate, stream, score or choices."""

    kind: str
    prompt_ids: tuple[int, ...]
    prompt: str  # decoded, special tokens kept
    adapter: str | None = None
    priority: int = 0
    sampling: Sampling | None = None
    request_id: str | None = None
    response_ids: tuple[int, ...] = ()


def steady_logprobs(prompt_ids: Sequence[int], response_ids: Sequence[int], adapter: str | None) -> list[float]:
    """Made-up log-probs: a token's own, a little higher when the prompt holds it, shifted by the adapter."""
    shift = adapter_shift(adapter)
    return [logprob(i) + (0.1 if i in prompt_ids else 0.0) + shift for i in response_ids]


def itself_first(prompt_ids: Sequence[int], response_ids: Sequence[int], adapter: str | None) -> list[list[int]]:
    """Made-up rivals: the token that stands there, then the ids behind it."""
    return [[id + n for n in range(8)] for id in response_ids]


class FakeEngine:
    """Says what it was told to say, remembers what it was asked, and fails on demand.

    Replies are tried in the order they were scripted; one without `to` answers anything. When nothing fits,
    `otherwise` is said, or what it makes of the prompt; set it to None to make an unscripted question an
    AssertionError.
    """

    def __init__(self, model: Path, *, otherwise: str | Callable[[str], str] | None = "I see.") -> None:
        """`model` is a folder with a tokenizer.json, so that ids and text agree with the rest of the system."""
        self.url = "http://engine.fake.internal"
        self.spare: Spare | None = None
        self.failures = 0
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.otherwise = otherwise
        self.model = model
        self.calls: list[Call] = []
        self.loaded: dict[str, str] = {}
        self.room = 1000
        self.invalid: set[str] = set()  # adapter names that load_adapter refuses
        self.admin: list[tuple[str, Any]] = []  # load, unload, weights, pause, resume, flush, abort; in order
        self.aborted: list[str | None] = []  # request ids of streams that their reader left
        self.weight_version = "base"
        self.paused: str | None = None
        self.logprobs: Logprobs = steady_logprobs
        self.likely: Likely = itself_first
        self.down: Exception | None = None
        self._script = Script()
        self._choices: list[tuple[str | None, dict[str, float]]] = []
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._released.set()
        self._held = ThreadPoolExecutor(256, "held")  # however many are held, the loop's own threads stay free
        self._hold_after = 0
        self.holding = threading.Event()  # set while a stream waits at a hold()

    # What a test says to it

    def says(self, text: str, *, to: str | None = None, times: int | None = 1, finish_reason: str = "stop") -> None:
        """Answer `text` to the next `times` prompts (None: to all) that match the regular expression `to`."""
        with self._lock:
            self._script.lines.append(Line(text, None if to is None else re.compile(to), times, finish_reason))

    def weighs(self, probabilities: Mapping[str, float], *, to: str | None = None) -> None:
        """Give choices these probabilities, by what they begin with, after every prompt that matches `to`. What was
        said last goes first."""
        self._choices.insert(0, (to, dict(probabilities)))

    def goes_down(self, error: Exception | None = None) -> None:
        """Fail every call from now on, with EngineUnavailable unless told otherwise."""
        self.down = error or EngineUnavailable("The engine does not answer (scripted).")

    def comes_back(self) -> None:
        self.down = None

    def starts_again(self) -> None:
        """As a new process does: it serves the base, and knows no adapter."""
        self.loaded.clear()
        self.weight_version, self.down, self.paused = "base", None, None

    def hold(self, after: int = 0) -> None:
        """Make replies wait after `after` tokens, until release(). `holding` tells that one is waiting."""
        self._hold_after = after
        self.holding.clear()
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def probe(
        self, adapter: str, prompt_ids: Sequence[int] = (5, 6, 7), response_ids: Sequence[int] = (8, 9, 2)
    ) -> Any:
        """What a checkpoint keeps of its learner's numbers, where they are this engine's own."""
        return {
            "prompt_ids": list(prompt_ids),
            "response_ids": list(response_ids),
            "logprobs": self.logprobs(prompt_ids, response_ids, adapter),
            "base_logprobs": self.logprobs(prompt_ids, response_ids, None),
            "dtype": "float32",
        }

    def asked(self, kind: str | None = None) -> list[Call]:
        """The calls of one kind, oldest first."""
        return [call for call in self.calls if kind in (None, call.kind)]

    # What the code asks of it

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> Completion:
        self._blind(pictures)
        line = self._answer("generate", prompt_ids, sampling, adapter, request_id, priority)
        await self._wait()
        ids, reason = self._tokens(line, sampling)
        logprobs = tuple(self.logprobs(prompt_ids, ids, adapter))
        return Completion(
            text=self._decode(ids),
            ids=tuple(ids),
            logprobs=logprobs,
            finish_reason=reason,
            prompt_tokens=len(prompt_ids),
            weight_version=self.weight_version,
            top=self._top(ids, logprobs, sampling),
        )

    async def stream(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        adapter: str | None = None,
        request_id: str | None = None,
        priority: int = 0,
        pictures: Sequence[str] = (),
    ) -> AsyncGenerator[Delta, None]:
        self._blind(pictures)
        line = self._answer("stream", prompt_ids, sampling, adapter, request_id, priority)
        ids, reason = self._tokens(line, sampling)
        logprobs = list(self.logprobs(prompt_ids, ids, adapter))
        done = False
        try:
            for n in range(len(ids)):
                if n == self._hold_after:
                    await self._wait()
                if self.down is not None:
                    raise self.down
                last = done = n == len(ids) - 1
                before, now = self._decode(ids[:n]), self._decode(ids[: n + 1])
                if not last:
                    before, now = before.rstrip("\ufffd"), now.rstrip("\ufffd")
                else:
                    before = before.rstrip("\ufffd")
                yield Delta(
                    text=now[len(before) :],
                    ids=(ids[n],),
                    logprobs=(logprobs[n],),
                    finish_reason=reason if last else None,
                    prompt_tokens=len(prompt_ids),
                    weight_version=self.weight_version,
                    top=self._top(ids[n : n + 1], logprobs[n : n + 1], sampling),
                )
                await asyncio.sleep(0)
        finally:
            if not done:
                self.aborted.append(request_id)

    async def score(
        self,
        prompt_ids: Sequence[int],
        response_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
        top: int = 0,
    ) -> Scored:
        if not prompt_ids or not response_ids:
            raise ValueError("scoring needs a prompt and a response")
        self._record("score", prompt_ids, None, adapter, None, priority, tuple(response_ids))
        logprobs = tuple(self.logprobs(prompt_ids, response_ids, adapter))
        if len(logprobs) != len(response_ids):
            raise EngineRefused(f"{len(logprobs)} scripted log-probs for {len(response_ids)} tokens")
        likely = self.likely(prompt_ids, response_ids, adapter) if top else ()
        rivals = tuple(tuple((id, -1.0 - n) for n, id in enumerate(row[:top])) for row in likely)
        return Scored(ids=tuple(response_ids), logprobs=logprobs, top=rivals)

    async def score_choices(
        self,
        prompt_ids: Sequence[int],
        choice_ids: Sequence[int],
        *,
        adapter: str | None = None,
        priority: int = 0,
    ) -> Choices:
        """As likely as `weighs` says of the prompt; else what the script's answer has in its box is likely."""
        call = self._record("choices", prompt_ids, None, adapter, None, priority, tuple(choice_ids))
        pieces = [self._decode([id]) for id in choice_ids]
        for to, probabilities in self._choices:
            if to is None or re.search(to, call.prompt):
                shares = [next((p for name, p in probabilities.items() if name.startswith(one)), 0.0) for one in pieces]
                return Choices(tuple(math.log(max(share, 1e-9)) for share in shares), len(prompt_ids))
        await self._wait()
        return Choices(tuple(choice_logprobs(self._line(call).says, pieces)), len(prompt_ids))

    async def load_adapter(self, name: str, path: str) -> None:
        self._admin("load", (name, str(path)))
        if name in self.invalid:
            raise AdapterInvalid(f"{name} cannot be served (scripted).")
        if name not in self.loaded and len(self.loaded) >= self.room:
            raise NoRoom(f"{len(self.loaded)} adapters are loaded, and no more fit.")
        if self.loaded.setdefault(name, str(path)) != str(path):
            raise AdapterInvalid(f"{name} is already loaded from another folder; names are never used twice.")

    async def unload_adapter(self, name: str) -> None:
        self._admin("unload", name)
        if self.loaded.pop(name, None) is None:
            raise AdapterMissing(f"The engine does not hold {name}.")

    async def adapters(self) -> dict[str, str]:
        self._alive()
        return dict(self.loaded)

    async def update_weights(self, path: str, *, version: str) -> None:
        self._admin("weights", (str(path), version))
        if version in self.invalid:
            raise AdapterInvalid(f"{path} cannot be served (scripted).")
        self.weight_version = version

    async def serving(self) -> str:
        self._alive()
        return weights_in(self.weight_version)

    async def pause(self, mode: PauseMode = "retract") -> None:
        self._admin("pause", mode)
        self.paused = mode

    async def resume(self) -> None:
        self._admin("resume", None)
        self.paused = None

    async def flush(self) -> None:
        self._admin("flush", None)

    async def abort(self, request_id: str) -> None:
        self._admin("abort", request_id)

    async def ready(self) -> bool:
        return self.down is None

    async def info(self) -> dict[str, Any]:
        self._alive()
        return {"model_path": str(self.model), "weight_version": self.weight_version}

    async def server_info(self) -> dict[str, Any]:
        self._alive()
        return {"model_path": str(self.model), "weight_version": self.weight_version, "version": "fake"}

    async def metrics(self) -> dict[str, float]:
        self._alive()
        return {"num_running_reqs": 0.0, "num_queue_reqs": 0.0}

    async def aclose(self) -> None:
        pass

    # How it does that

    def _alive(self) -> None:
        if self.down is not None:
            self.failures += 1
            raise self.down

    def _blind(self, pictures: Sequence[str]) -> None:
        """As the embedded engine, which takes no pictures."""
        if pictures:
            raise EngineRefused("This model takes no pictures.")

    def _admin(self, what: str, value: Any) -> None:
        self._alive()
        self.admin.append((what, value))

    def _record(
        self,
        kind: str,
        prompt_ids: Sequence[int],
        sampling: Sampling | None,
        adapter: str | None,
        request_id: str | None,
        priority: int,
        response_ids: tuple[int, ...] = (),
    ) -> Call:
        prompt = self.tokenizer.decode(list(prompt_ids), skip_special_tokens=False)
        call = Call(kind, tuple(prompt_ids), prompt, adapter, priority, sampling, request_id, response_ids)
        with self._lock:
            self.calls.append(call)
        self._alive()
        if (wanted := weights_in(adapter or "")) != (served := weights_in(self.weight_version)):
            raise WeightsExchanged(f"The engine serves {served or 'the base'}, not {wanted or 'the base'}.")
        if adapter is not None and not wanted and adapter not in self.loaded:
            raise AdapterMissing(f"The engine does not hold {adapter}.")
        return call

    def _answer(
        self,
        kind: str,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        adapter: str | None,
        request_id: str | None,
        priority: int,
    ) -> Line:
        return self._line(self._record(kind, prompt_ids, sampling, adapter, request_id, priority))

    def _line(self, call: Call) -> Line:
        with self._lock:
            line = self._script.take(lambda: call.prompt)
        if line is not None:
            return line
        if self.otherwise is None:
            raise AssertionError(f"nothing is scripted for this prompt:\n{call.prompt}")
        return Line(self.otherwise(call.prompt) if callable(self.otherwise) else self.otherwise, None, None)

    def _tokens(self, line: Line, sampling: Sampling) -> tuple[list[int], str]:
        ids = self.tokenizer.encode(line.says, add_special_tokens=False).ids
        if line.finish_reason == "stop" and (end := self.tokenizer.token_to_id("<|im_end|>")) is not None:
            ids = [*ids, end]
        if len(ids) > sampling.max_new_tokens:
            return ids[: sampling.max_new_tokens], "length"
        return ids, line.finish_reason

    def _top(self, ids: Sequence[int], logprobs: Sequence[float], sampling: Sampling) -> Top:
        """Made-up rivals: the token drawn is the likeliest, the ids behind it are each 1 less likely."""
        size, count = self.tokenizer.get_vocab_size(), range(sampling.top_logprobs)
        if not count:
            return ()
        return tuple(
            tuple(((id + n) % size, logprob - n) for n in count) for id, logprob in zip(ids, logprobs, strict=True)
        )

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    async def _wait(self) -> None:
        if not self._released.is_set():
            self.holding.set()
            waiting = asyncio.get_running_loop().run_in_executor(self._held, self._released.wait, 30)
            if not await waiting:
                raise EngineUnavailable("The scripted engine was held for 30 s and never released.")
            self.holding.clear()
