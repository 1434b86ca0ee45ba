"""Encode a reply in OpenAI's Responses shapes: as one object, and as the events of its making."""

from __future__ import annotations

import json
from collections.abc import Mapping
from time import time
from typing import Any

from chat.api import response_items as made
from chat.api.streaming import encode_event
from chat.models import Turn
from chat.rendering.model_output import Piece
from chat.replying.deltas import ReplyDelta
from core.errors import TalkbackError


def response(
    turn: Turn, echo: Mapping[str, Any], status: str, output: list[dict[str, Any]], **ended: Any
) -> dict[str, Any]:
    """The object; `echo` is what the request asked for, `ended` what is known at its end."""
    start: dict[str, Any] = {
        "id": turn.completion_id,
        "object": "response",
        "created_at": int(turn.created_at.timestamp()),
        "status": status,
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": str(turn.checkpoint),
        "output": output,
        "usage": None,
    }
    return start | dict(echo) | ended


def usage(prompt: int, reply: int, cached: int, thinking: int) -> dict[str, Any]:
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": reply,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": prompt + reply,
    }


def ending(finish: str | None) -> dict[str, Any]:
    """Status and reason of a reply that ended by itself, at its length, or because a person stopped it."""
    if finish == "length":
        return {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return {"status": "cancelled" if finish == "abort" else "completed"}


def failed(error: TalkbackError) -> dict[str, Any]:
    return {"status": "failed", "error": {"code": error.code, "message": str(error)}}


class ResponseEvents:
    """Encode and count a reply. Items come one after another, each closed before the next."""

    holds = False

    def __init__(self, turn: Turn, echo: Mapping[str, Any], *, summed_up: bool) -> None:
        self.turn, self.echo, self.summed_up = turn, echo, summed_up
        self.tokens = self.thinking = self._cached = 0
        self._finish: str | None = None
        self._number = -1  # of the last event
        self._done: list[dict[str, Any]] = []
        self._counts = {"content": 0, "reasoning": 0, "call": 0}
        self._kind = ""  # of the item that is open
        self._call: Piece | None = None
        self._words: list[str] = []
        self._before = ""
        self._where: dict[str, Any] = {}  # the open item's place, in each of its events

    def start(self) -> bytes:
        return self._whole("created", "in_progress") + self._whole("in_progress", "in_progress")

    def heard(self, choice: int, spoken: ReplyDelta) -> None:
        """Count what was said."""
        self.tokens += len(spoken.ids)
        if spoken.pieces and spoken.pieces[0].kind == "reasoning":
            self.thinking += len(spoken.ids)
        if spoken.finish_reason:
            self._finish, self._cached = spoken.finish_reason, spoken.cached_tokens

    def piece(self, choice: int, spoken: ReplyDelta) -> bytes:
        self.heard(choice, spoken)
        if not spoken.pieces and not spoken.ids and not spoken.finish_reason:
            return self._delta("") if self._kind else self._whole("in_progress", "in_progress")
        return b"".join([self._said(piece) for piece in spoken.pieces])

    def end(self) -> bytes:
        ended = ending(self._finish)
        last = b"" if self._kind or self._done else self._open("content")
        last += self._shut("completed" if ended["status"] == "completed" else "incomplete")
        type = "completed" if ended["status"] == "completed" else "incomplete"
        return last + self._whole(type, **self._told(ended))

    def fail(self, failure: TalkbackError) -> bytes:
        return self._shut("incomplete") + self._whole("failed", **self._told(failed(failure)))

    def _told(self, ended: Mapping[str, Any]) -> dict[str, Any]:
        used = usage(len(self.turn.prompt_ids), self.tokens, self._cached, self.thinking)
        return {"completed_at": int(time()) if ended["status"] == "completed" else None, "usage": used, **ended}

    def _said(self, piece: Piece) -> bytes:
        if piece.kind == "call":
            return self._open("call", piece)
        if piece.kind == "arguments" or piece.kind == self._kind:
            return self._delta(piece.text)
        return self._open(piece.kind) + self._delta(piece.text)

    def _open(self, kind: str, call: Piece | None = None) -> bytes:
        before = self._shut("completed")
        self._kind, self._call, self._words = kind, call, []
        item = self._item("in_progress")
        self._where = {"item_id": item["id"], "output_index": len(self._done)}
        if kind == "content":
            item["content"] = []
        elif kind == "reasoning":
            item |= {"summary": []} | ({} if self.summed_up else {"content": []})
        type = f"response.{self._channel}.delta"
        same = json.dumps({"type": type, **self._place, **self._likely})[:-1]
        self._before = f'event: {type}\ndata: {same}, "sequence_number": '  # what deltas have in common, written once
        added = self._event("response.output_item.added", output_index=len(self._done), item=item)
        return before + added + self._part("added", "")

    def _shut(self, status: str) -> bytes:
        if not self._kind:
            return b""
        words, item = "".join(self._words), self._item(status)
        done = {"arguments": words, "name": item.get("name")} if self._kind == "call" else {"text": words}
        said = self._event(f"response.{self._channel}.done", **self._place, **done, **self._likely)
        said += self._part("done", words)
        said += self._event("response.output_item.done", output_index=len(self._done), item=item)
        self._done.append(item)
        self._counts[self._kind] += 1
        self._kind = ""
        return said

    def _item(self, status: str) -> dict[str, Any]:
        words, number = "".join(self._words), self._counts[self._kind]
        if self._call is not None and self._kind == "call":
            return made.function_call(self.turn, number, self._call.id, self._call.name, words, status)
        if self._kind == "reasoning":
            return made.reasoning(self.turn, words, summed_up=self.summed_up, number=number, status=status)
        return made.message(self.turn, words, number=number, status=status)

    def _delta(self, text: str) -> bytes:
        if text:
            self._words.append(text)
        self._number += 1
        return f'{self._before}{self._number}, "delta": {json.dumps(text)}}}\n\n'.encode()

    def _part(self, what: str, words: str) -> bytes:
        """The beginning or the end of the one part that a message or a thought has; a call has none."""
        if self._kind == "call":
            return b""
        if self._kind == "content":
            part, of = made.output_text(words), "content_part"
        elif self.summed_up:
            part, of = {"type": "summary_text", "text": words}, "reasoning_summary_part"
        else:
            part, of = {"type": "reasoning_text", "text": words}, "content_part"
        return self._event(f"response.{of}.{what}", **self._place, part=part)

    @property
    def _channel(self) -> str:
        thought = "reasoning_summary_text" if self.summed_up else "reasoning_text"
        return {"content": "output_text", "reasoning": thought}.get(self._kind, "function_call_arguments")

    @property
    def _place(self) -> dict[str, Any]:
        if self._kind == "call":
            return self._where
        return self._where | {"summary_index" if self._kind == "reasoning" and self.summed_up else "content_index": 0}

    @property
    def _likely(self) -> dict[str, Any]:
        return {"logprobs": []} if self._kind == "content" else {}

    def _whole(self, type: str, status: str, **ended: Any) -> bytes:
        now = response(self.turn, self.echo, status, list(self._done), **ended)
        return self._event(f"response.{type}", response=now)

    def _event(self, type: str, **content: Any) -> bytes:
        self._number += 1
        return encode_event({"type": type, "sequence_number": self._number} | content)
