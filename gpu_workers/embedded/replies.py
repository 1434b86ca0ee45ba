"""One sequence's answer as it grows, in SGLang's words."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpu_workers.embedded.requests import Ask
from gpu_workers.embedded.strands import Entry, News, Strand


class Reply:
    """An answer on the event loop, which the model's thread sends its news to."""

    def __init__(self, ask: Ask, arrivals: asyncio.Queue[tuple[Reply, News]], tokenizer: Any) -> None:
        self.ask, self.arrivals, self._tokenizer = ask, arrivals, tokenizer
        self.strand: Strand | None = None
        self.finish: dict[str, Any] | None = None
        self._ids: list[int] = []
        self._text = ""
        self._logprobs: list[list[Any]] = []
        self._tops: list[list[list[Any]]] = []
        self._chosen: list[list[list[Any]]] = []
        self._version = ""
        self._sent_ids = self._sent_text = 0

    def sink(self, loop: asyncio.AbstractEventLoop) -> Callable[[News], None]:
        def take(news: News) -> None:
            with suppress(RuntimeError):  # the loop is closed: no reader listens any more
                loop.call_soon_threadsafe(self.arrivals.put_nowait, (self, news))

        return take

    def take(self, news: News) -> None:
        self._ids += news.ids
        self._text, self._version = news.text, news.weight_version
        self._logprobs += [self._entry(entry) for entry in news.logprobs]
        self._tops += [[self._entry(entry) for entry in row] for row in news.tops]
        self._chosen += [[self._entry(entry) for entry in row] for row in news.chosen]
        self.finish = news.finish

    def answer(self, incremental: bool = False) -> dict[str, Any]:
        """SGLang's answer: all so far, or only what is new since the last call."""
        strand, ask = self.strand, self.ask
        assert strand is not None
        first, at = (self._sent_ids, self._sent_text) if incremental else (0, 0)
        self._sent_ids, self._sent_text = len(self._ids), max(len(self._text), self._sent_text)
        meta: dict[str, Any] = {
            "id": ask.rid,
            "finish_reason": self.finish,
            "prompt_tokens": strand.prompt_length,
            "weight_version": self._version,
            "num_retractions": strand.retractions,
            "completion_tokens": len(self._ids),
            "cached_tokens": strand.cached_tokens or 0,
            "cached_tokens_details": None,
            "reasoning_tokens": 0,
            "dp_rank": None,
        }
        if ask.return_logprob:
            self._add_logprobs(meta, strand, first)
        if self.finish is not None:
            meta["weight_versions"] = strand.versions
            meta |= _times(strand, len(self._ids))
        return {"text": self._text[at:], "output_ids": self._ids[first:], "meta_info": meta}

    def _add_logprobs(self, meta: dict[str, Any], strand: Strand, first: int) -> None:
        ask = self.ask
        meta["input_token_logprobs"] = [self._entry(entry) for entry in list(strand.prompt_logprobs)]
        meta["output_token_logprobs"] = self._logprobs[first:]
        meta["output_token_logprobs_length"] = len(self._logprobs)
        if ask.top_logprobs:
            meta["input_top_logprobs"] = self._rows(strand.prompt_tops)
            meta["output_top_logprobs"] = self._tops[first:]
        if ask.token_ids_logprob:
            meta["input_token_ids_logprobs"] = self._rows(strand.prompt_chosen)
            meta["output_token_ids_logprobs"] = self._chosen[first:]

    def _rows(self, rows: list[list[Entry] | None]) -> list[list[list[Any]] | None]:
        return [None if row is None else [self._entry(entry) for entry in row] for row in list(rows)]

    def _entry(self, entry: Entry) -> list[Any]:
        logprob, token = entry
        text = self._tokenizer.decode([token]) if self.ask.text_in_logprobs else None
        # JSON has no word for minus infinity, the log-prob of a token that may not come.
        shown = None if logprob is None or not math.isfinite(logprob) else round(logprob, 7)
        return [shown, token, text]


def _times(strand: Strand, tokens: int) -> dict[str, Any]:
    end = strand.finished or time.time()
    first, started = strand.prompt_done or end, strand.started or end
    return {
        "e2e_latency": end - strand.arrived,
        "first_token_latency": first - strand.arrived,
        "queue_time": started - strand.arrived,
        "decode_throughput": (tokens - 1) / (end - first) if tokens > 1 and end > first else None,
        "request_received_ts": strand.arrived,
        "prefill_finished_time": first,
        "request_finished_ts": end,
    }
