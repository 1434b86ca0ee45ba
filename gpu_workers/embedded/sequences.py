"""A sequence holds one request while the engine generates: tokens, progress, and the output not yet sent."""

from __future__ import annotations

import time
from collections import Counter, abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu_workers.embedded.adapters import Adapter
from gpu_workers.embedded.cache import KV
from gpu_workers.embedded.generate_requests import Ask
from gpu_workers.embedded.grammar import Grammar
from gpu_workers.embedded.sampling import Sampler
from gpu_workers.embedded.text import Text

Finish = dict[str, Any]
Entry = tuple[float | None, int]  # log-prob and token


@dataclass
class StepOutput:
    """What steps produced for one sequence and the reader has not got yet. `finish` is set on the last."""

    ids: list[int] = field(default_factory=list)
    text: str = ""  # all text so far
    logprobs: list[Entry] = field(default_factory=list)
    tops: list[list[Entry]] = field(default_factory=list)
    chosen: list[list[Entry]] = field(default_factory=list)  # of token_ids_logprob
    weight_version: str = ""
    finish: Finish | None = None


@dataclass(eq=False)
class Sequence:
    """One request being generated. `tokens` are prompt and output; the first `kv.length` of them are computed."""

    ask: Ask
    adapter: Adapter | None
    sink: Callable[[StepOutput], None]
    order: int
    text: Text
    sampler: Sampler
    tokens: np.ndarray
    length: int
    grammar: Grammar | None = None
    counts: Counter[int] = field(default_factory=Counter)
    kv: KV | None = None
    generation: int = -1  # of the weights that computed all of kv; -1: mixed
    cached_tokens: int | None = None
    retractions: int = 0
    prompt_logprobs: list[Entry] = field(default_factory=list)
    prompt_tops: list[list[Entry] | None] = field(default_factory=list)
    prompt_chosen: list[list[Entry] | None] = field(default_factory=list)
    versions: list[dict[str, Any]] = field(default_factory=list)
    pending: StepOutput = field(default_factory=StepOutput)  # not said yet
    arrived: float = field(default_factory=time.time)
    started: float | None = None
    prompt_done: float | None = None
    finished: float | None = None

    @property
    def prompt_length(self) -> int:
        return len(self.ask.ids)

    @property
    def output_length(self) -> int:
        return self.length - self.prompt_length

    @property
    def computed(self) -> int:
        return 0 if self.kv is None else self.kv.length

    @property
    def is_reading(self) -> bool:
        """True until nothing but its newest token is left to compute."""
        return self.length - self.computed > 1 or self.output_length == 0

    @property
    def is_due(self) -> bool:
        """Whether `pending` is sent now: with the first token, and with every `interval` tokens behind it."""
        every = self.ask.interval
        return every > 0 and (self.output_length - 1) % every == 0

    @property
    def ids(self) -> np.ndarray:
        return self.tokens[: self.length]

    @property
    def first_scored(self) -> int:
        """The first position whose logits give a prompt log-prob that is still wanted."""
        start = self.ask.logprob_start
        return self.length if start < 0 else start + len(self.prompt_logprobs) - 1

    def note_prompt(self, positions: abc.Sequence[int], logits: Tensor) -> None:
        """Note the log-probs of the prompt tokens that follow `positions`, at temperature 1; `logits` are (P, V)."""
        ids = [int(self.ask.ids[at + 1]) for at in positions]
        sums = logits.logsumexp(-1)  # (P,)
        found = logits[torch.arange(len(ids)), torch.tensor(ids)] - sums
        self.prompt_logprobs.extend(zip(found.tolist(), ids, strict=True))
        if self.ask.top_logprobs:
            self.prompt_tops.extend(tops(logits - sums[:, None], self.ask.top_logprobs))
        if self.ask.token_ids_logprob:
            self.prompt_chosen.extend(chosen(logits - sums[:, None], self.ask.token_ids_logprob))

    def stamp(self, version: str) -> None:
        """Note which weights drew the newest token."""
        spans, end = self.versions, self.output_length
        if spans and spans[-1]["version"] == version:
            spans[-1]["end"] = end
        else:
            spans.append({"version": version, "start": end - 1, "end": end})

    def retract(self) -> None:
        """Let go of what was computed; it will be computed again."""
        self.kv = None
        self.retractions += 1

    def rank(self) -> tuple[int, int]:
        """Sorts first who is served first."""
        return -self.ask.priority, self.order


def beyond(error: ValueError) -> Finish:
    """Abort a reply whose grammar compiled and then asked for more than is borne."""
    message = f"The grammar of this reply could not be followed: {' '.join(str(error).split())[:300]}"
    return {"type": "abort", "message": message, "status_code": 400, "err_type": None}


def tops(logprobs: Tensor, count: int) -> list[list[Entry]]:
    values, ids = logprobs.topk(min(count, logprobs.shape[-1]))
    return [list(zip(v, i, strict=True)) for v, i in zip(values.tolist(), ids.tolist(), strict=True)]


def chosen(logprobs: Tensor, ids: abc.Sequence[int]) -> list[list[Entry]]:
    return [list(zip(row, ids, strict=True)) for row in logprobs[:, list(ids)].tolist()]
