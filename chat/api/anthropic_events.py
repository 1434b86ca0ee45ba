"""Encode a reply in Anthropic's shapes: as one message, as server-sent events, and as an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from django.conf import settings

from chat.api.streaming import encode_event
from chat.models import Turn
from chat.rendering.model_output import Piece
from chat.rendering.renderer import Renderer
from chat.replying import replies
from chat.replying.deltas import ReplyDelta
from chat.turns import ContextTooLong
from core.errors import TalkbackError

REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}
"""What ended a reply. A reply that a person stopped has ended its turn: Anthropic has no word for it."""

ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}

PING = encode_event({"type": "ping"})

BLOCKS: Mapping[str, Mapping[str, Any]] = {
    "content": {"type": "text", "text": ""},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}
"""How a block begins, by the kind of its pieces."""

DELTAS = {
    "content": '"text_delta", "text": ',
    "reasoning": '"thinking_delta", "thinking": ',
    "call": '"input_json_delta", "partial_json": ',
}
"""How more of it is said."""


def shape(error: TalkbackError) -> dict[str, Any]:
    """A failure as Anthropic's clients read it; they compact a conversation on the words of a prompt too long."""
    kind = ERRORS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    words = str(error)
    if isinstance(error, ContextTooLong):
        words = f"prompt is too long: {error.asked} tokens > {error.window} maximum. {words}"
    return {"type": "error", "error": {"type": kind, "message": words, "code": error.code}}


def answer(turn: Turn, stops: Sequence[str] = ()) -> dict[str, Any]:
    """The whole reply as one message; `stops` are the stop sequences that the client gave."""
    said = turn.message or {"content": turn.text}
    content: list[dict[str, Any]] = []
    if reasoning := said.get("reasoning_content"):
        content.append({"type": "thinking", "thinking": reasoning, "signature": turn.completion_id})
    if text := said.get("content"):
        content.append({"type": "text", "text": text})
    for call in said.get("tool_calls") or ():
        function = call["function"]
        given = {"id": call["id"], "name": function["name"], "input": arguments(function["arguments"])}
        content.append({"type": "tool_use", **given})
    used = usage(len(turn.prompt_ids), len(turn.response_ids), turn.cached_tokens)
    return opening(turn) | {"content": content, "usage": used} | reason(stops, turn.finish_reason, turn.response_ids)


def opening(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.completion_id,
        "type": "message",
        "role": "assistant",
        "model": str(turn.checkpoint),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(len(turn.prompt_ids), 0, 0),
    }


def usage(prompt: int, reply: int, cached: int) -> dict[str, Any]:
    """Anthropic counts what was read from the cache beside the input, not in it."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": reply,
    }


def reason(stops: Sequence[str], finish: str | None, ids: Sequence[int]) -> dict[str, Any]:
    """Why the reply ended, and at which stop sequence."""
    hit = stopped_at(stops, ids) if finish == "stop" else None
    return {"stop_reason": "stop_sequence" if hit else REASONS.get(finish or "", "end_turn"), "stop_sequence": hit}


def stopped_at(stops: Sequence[str], ids: Sequence[int]) -> str | None:
    """The stop sequence that ended these ids: engines take it from the text, and leave its tokens."""
    if not stops:
        return None
    longest = max(len(stop.encode()) for stop in stops)
    end = Renderer.for_model(settings.MODEL).decode(ids[-longest - 8 :])
    hits = [(end.find(stop), stop) for stop in stops if stop in end]
    return min(hits)[1] if hits else None


def arguments(text: str) -> dict[str, Any]:
    """A tool call's arguments as the object that Anthropic's clients expect."""
    with suppress(ValueError, RecursionError):
        value = json.loads(text, parse_constant=str)  # a model may write NaN, which is no JSON
        return value if isinstance(value, dict) else {"arguments": value}
    return {"arguments": text} if text.strip() else {}


class MessageEvents:
    """Encode a reply as server-sent events: message_start, blocks one after another, message_delta, message_stop."""

    holds = True  # Anthropic's own clients raise on a call whose pieces add up to no JSON

    def __init__(self, turn: Turn, stops: Sequence[str] = ()) -> None:
        self._turn, self._stops = turn, stops
        self._index = -1
        self._open = ""
        self._before = ""
        self._ids: list[int] = []
        self._finish: str | None = None
        self._cached = 0
        self._spoke_at = monotonic()

    def start(self) -> bytes:
        return encode_event({"type": "message_start", "message": opening(self._turn)}) + PING

    def piece(self, choice: int, spoken: ReplyDelta) -> bytes:
        self._ids += spoken.ids
        if spoken.finish_reason:
            self._finish, self._cached = spoken.finish_reason, spoken.cached_tokens
        elif not spoken.pieces and (not spoken.ids or monotonic() - self._spoke_at > replies.BEAT_S):
            self._spoke_at = monotonic()
            return PING
        if not spoken.pieces:
            return b""
        self._spoke_at = monotonic()
        return b"".join(self._said(piece) for piece in spoken.pieces)

    def _said(self, piece: Piece) -> bytes:
        if piece.kind == "call":
            start = {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
            return self._shut() + self._start("call", start)
        if piece.kind in ("arguments", self._open):
            return self._more(piece.text)
        return self._shut() + self._start(piece.kind, BLOCKS[piece.kind]) + self._more(piece.text)

    def end(self) -> bytes:
        why = reason(self._stops, self._finish, self._ids)
        used = usage(len(self._turn.prompt_ids), len(self._ids), self._cached)
        delta = encode_event({"type": "message_delta", "delta": why, "usage": used})
        return self._shut() + delta + encode_event({"type": "message_stop"})

    def fail(self, failure: TalkbackError) -> bytes:
        return encode_event(shape(failure))

    def _start(self, kind: str, block: Mapping[str, Any]) -> bytes:
        self._open, self._index = kind, self._index + 1
        event = '{"type": "content_block_delta", "index": '
        self._before = f'event: content_block_delta\ndata: {event}{self._index}, "delta": {{"type": {DELTAS[kind]}'
        return encode_event({"type": "content_block_start", "index": self._index, "content_block": block})

    def _more(self, text: str) -> bytes:
        return f"{self._before}{json.dumps(text)}}}}}\n\n".encode()  # what deltas have in common is written once

    def _shut(self) -> bytes:
        if not self._open:
            return b""
        signed = b""
        if self._open == "reasoning":  # clients replay no thinking without one
            delta = {"type": "signature_delta", "signature": self._turn.completion_id}
            signed = encode_event({"type": "content_block_delta", "index": self._index, "delta": delta})
        self._open = ""
        return signed + encode_event({"type": "content_block_stop", "index": self._index})
