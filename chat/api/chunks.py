"""Encode a reply in OpenAI's chat completion shapes: as one answer, or in chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from chat.api.likelihoods import likelihoods
from chat.api.wire import event, shape
from chat.models import Turn
from chat.rendering.model_output import Piece
from chat.rendering.renderer import Renderer
from chat.replying.deltas import ReplyDelta
from core.errors import TalkbackError
from core.textfiles import escape_separators

written = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_value(value: Any) -> str:
    """A value as JSON on one line of an event, whatever a reader takes for the end of a line."""
    return escape_separators(written(value))


class Count:
    """Count one choice's tokens and log-probs as they come, so that no row is read for them."""

    def __init__(self, renderer: Renderer | None = None) -> None:
        """With a renderer the log-probs are kept too."""
        self.tokens = self.reasoning = self.cached = 0
        self.finish_reason = "stop"
        self.renderer = renderer
        self.logprobs: list[dict[str, Any]] = []

    def add(self, spoken: ReplyDelta) -> None:
        self.tokens += len(spoken.ids)
        if spoken.pieces and spoken.pieces[0].kind == "reasoning":
            self.reasoning += len(spoken.ids)
        if self.renderer is not None:
            self.logprobs += likelihoods(self.renderer, spoken)
        if spoken.finish_reason:
            self.cached, self.finish_reason = spoken.cached_tokens, reason(spoken.finish_reason)

    def taken(self) -> dict[str, Any] | None:
        """The log-probs since the last time, in OpenAI's shape; None where they were not asked for."""
        told, self.logprobs = self.logprobs, []
        return {"content": told, "refusal": None} if self.renderer is not None else None


def start_counts(turns: Sequence[Turn], *, logprobs: bool = False) -> list[Count]:
    """One a choice. Reads the model's tokenizer, where log-probs are asked for."""
    renderer = Renderer.for_model(settings.MODEL) if logprobs else None
    return [Count(renderer) for _ in turns]


class Chunks:
    """Encode replies as OpenAI's chunks. What the chunks have in common is written once."""

    holds = False

    def __init__(self, turns: Sequence[Turn], counts: Sequence[Count], *, usage: bool = False) -> None:
        self.turns, self.counts, self.usage = turns, counts, usage
        self.head = head(turns[0], "chat.completion.chunk") | ({"usage": None} if usage else {})
        opened = encode_value(self.head)[:-1]
        self._openings = [f'data: {opened},"choices":[{{"index":{choice},"delta":' for choice in range(len(turns))]

    def start(self) -> bytes:
        return b"".join(self._chunk(n, '{"role":"assistant","content":""}') for n in range(len(self.turns)))

    def piece(self, choice: int, spoken: ReplyDelta) -> bytes:
        count = self.counts[choice]
        count.add(spoken)
        deltas = [delta(piece) for piece in spoken.pieces]
        logprobs = "null"
        if count.logprobs:
            logprobs = encode_value(count.taken())
            deltas = deltas or ["{}"]  # the words themselves are held back
        if not (deltas or spoken.ids or spoken.finish_reason):
            deltas = ["{}"]  # the engine is still writing
        said = [self._chunk(choice, one, "null" if n else logprobs) for n, one in enumerate(deltas)]
        if spoken.finish_reason:
            said.append(self._chunk(choice, "{}", finish=f'"{count.finish_reason}"'))
        return b"".join(said)

    def end(self) -> bytes:
        told = event(self.head | {"choices": [], "usage": sum_usage(self.turns, self.counts)}) if self.usage else b""
        return told + event("[DONE]")

    def fail(self, failure: TalkbackError) -> bytes:
        return event({"error": shape(failure)}) + event("[DONE]")

    def _chunk(self, choice: int, delta: str, logprobs: str = "null", finish: str = "null") -> bytes:
        opening = self._openings[choice]
        return f'{opening}{delta},"logprobs":{logprobs},"finish_reason":{finish}}}]}}\n\n'.encode()


def delta(piece: Piece) -> str:
    """What a chunk adds, as JSON.

    >>> delta(Piece("content", 'Say "hi".')), delta(Piece("arguments", '{"x', index=1))
    ('{"content":"Say \\\\"hi\\\\"."}', '{"tool_calls":[{"index":1,"function":{"arguments":"{\\\\"x"}}]}')
    """
    if piece.kind == "content":
        return f'{{"content":{encode_value(piece.text)}}}'
    if piece.kind == "reasoning":
        return f'{{"reasoning_content":{encode_value(piece.text)}}}'
    if piece.kind == "arguments":
        return f'{{"tool_calls":[{{"index":{piece.index},"function":{{"arguments":{encode_value(piece.text)}}}}}]}}'
    function = {"name": piece.name, "arguments": piece.text}
    return encode_value(
        {"tool_calls": [{"index": piece.index, "id": piece.id, "type": "function", "function": function}]}
    )


def answer(turns: Sequence[Turn], counts: Sequence[Count]) -> dict[str, Any]:
    """The whole answer; the turns are as they were kept."""
    choices = [
        {
            "index": number,
            "message": {"content": None, **turn.message, "refusal": None},
            "logprobs": count.taken(),
            "finish_reason": count.finish_reason,
        }
        for number, (turn, count) in enumerate(zip(turns, counts, strict=True))
    ]
    said = head(turns[0], "chat.completion") | {"choices": choices, "usage": sum_usage(turns, counts)}
    name = turns[0].session.external_id
    return said | ({"session_id": name} if name else {})


def head(turn: Turn, kind: str) -> dict[str, Any]:
    """`system_fingerprint` is the name of the weights that answer."""
    return {
        "id": turn.completion_id,
        "object": kind,
        "created": int(turn.created_at.timestamp()),
        "model": str(turn.checkpoint),
        "system_fingerprint": turn.checkpoint.adapter or "base",
    }


def sum_usage(turns: Sequence[Turn], counts: Sequence[Count]) -> dict[str, Any]:
    """All choices have one prompt, which counts once."""
    prompt, reply = len(turns[0].prompt_ids), sum(count.tokens for count in counts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
        "prompt_tokens_details": {"cached_tokens": counts[0].cached},
        "completion_tokens_details": {"reasoning_tokens": sum(count.reasoning for count in counts)},
    }


def reason(finish: str) -> str:
    """OpenAI knows no abort: a reply that a person stopped has stopped."""
    return finish if finish in ("length", "tool_calls") else "stop"
