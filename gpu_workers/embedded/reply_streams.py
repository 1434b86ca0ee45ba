"""A reply turns one sequence's output into SGLang's answer as it grows."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpu_workers.embedded.generate_requests import Ask
from gpu_workers.embedded.sequences import Entry, Sequence, StepOutput


class Reply:
    """Collect a sequence's output on the event loop, where the model's thread sends it."""

    def __init__(self, ask: Ask, arrivals: asyncio.Queue[tuple[Reply, StepOutput]], tokenizer: Any) -> None:
        self.ask, self.arrivals, self._tokenizer = ask, arrivals, tokenizer
        self.sequence: Sequence | None = None
        self.finish: dict[str, Any] | None = None
        self._ids: list[int] = []
        self._text = ""
        self._logprobs: list[list[Any]] = []
        self._tops: list[list[list[Any]]] = []
        self._chosen: list[list[list[Any]]] = []
        self._version = ""
        self._sent_ids = self._sent_text = 0

    def sink(self, loop: asyncio.AbstractEventLoop) -> Callable[[StepOutput], None]:
        def take(output: StepOutput) -> None:
            with suppress(RuntimeError):  # the loop is closed: no reader listens any more
                loop.call_soon_threadsafe(self.arrivals.put_nowait, (self, output))

        return take

    def take(self, output: StepOutput) -> None:
        self._ids += output.ids
        self._text, self._version = output.text, output.weight_version
        self._logprobs += [self._entry(entry) for entry in output.logprobs]
        self._tops += [[self._entry(entry) for entry in row] for row in output.tops]
        self._chosen += [[self._entry(entry) for entry in row] for row in output.chosen]
        self.finish = output.finish

    def answer(self, incremental: bool = False) -> dict[str, Any]:
        """SGLang's answer: all so far, or only what is new since the last call."""
        sequence, ask = self.sequence, self.ask
        assert sequence is not None
        first, at = (self._sent_ids, self._sent_text) if incremental else (0, 0)
        self._sent_ids, self._sent_text = len(self._ids), max(len(self._text), self._sent_text)
        meta: dict[str, Any] = {
            "id": ask.rid,
            "finish_reason": self.finish,
            "prompt_tokens": sequence.prompt_length,
            "weight_version": self._version,
            "num_retractions": sequence.retractions,
            "completion_tokens": len(self._ids),
            "cached_tokens": sequence.cached_tokens or 0,
            "cached_tokens_details": None,
            "reasoning_tokens": 0,
            "dp_rank": None,
        }
        if ask.return_logprob:
            self._add_logprobs(meta, sequence, first)
        if self.finish is not None:
            meta["weight_versions"] = sequence.versions
            meta |= _times(sequence, len(self._ids))
        return {"text": self._text[at:], "output_ids": self._ids[first:], "meta_info": meta}

    def _add_logprobs(self, meta: dict[str, Any], sequence: Sequence, first: int) -> None:
        ask = self.ask
        meta["input_token_logprobs"] = [self._entry(entry) for entry in list(sequence.prompt_logprobs)]
        meta["output_token_logprobs"] = self._logprobs[first:]
        meta["output_token_logprobs_length"] = len(self._logprobs)
        if ask.top_logprobs:
            meta["input_top_logprobs"] = self._rows(sequence.prompt_tops)
            meta["output_top_logprobs"] = self._tops[first:]
        if ask.token_ids_logprob:
            meta["input_token_ids_logprobs"] = self._rows(sequence.prompt_chosen)
            meta["output_token_ids_logprobs"] = self._chosen[first:]

    def _rows(self, rows: list[list[Entry] | None]) -> list[list[list[Any]] | None]:
        return [None if row is None else [self._entry(entry) for entry in row] for row in list(rows)]

    def _entry(self, entry: Entry) -> list[Any]:
        logprob, token = entry
        text = self._tokenizer.decode([token]) if self.ask.text_in_logprobs else None
        # JSON has no word for minus infinity, the log-prob of a token that may not come.
        shown = None if logprob is None or not math.isfinite(logprob) else round(logprob, 7)
        return [shown, token, text]


def _times(sequence: Sequence, tokens: int) -> dict[str, Any]:
    end = sequence.finished or time.time()
    first, started = sequence.prompt_done or end, sequence.started or end
    return {
        "e2e_latency": end - sequence.arrived,
        "first_token_latency": first - sequence.arrived,
        "queue_time": started - sequence.arrived,
        "decode_throughput": (tokens - 1) / (end - first) if tokens > 1 and end > first else None,
        "request_received_ts": sequence.arrived,
        "prefill_finished_time": first,
        "request_finished_ts": end,
    }
