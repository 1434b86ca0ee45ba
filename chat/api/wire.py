"""Make strings that a database keeps, server-sent events and error bodies, for every protocol."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from typing import Annotated, Any, TypeVar

from django.http import StreamingHttpResponse
from pydantic import BeforeValidator, FailFast

from core.errors import TalkbackError
from gpu_workers.types import DEEPEST
from gpu_workers.types import storable as storable_text

One = TypeVar("One")


class FirstFault(FailFast):
    """pydantic's own, which a union cannot hold: it has no hash."""

    __hash__ = object.__hash__


Quick = Annotated[list[One], FirstFault()]
"""A list of a request. Its first fault is the answer: hundreds of thousands more would hold up everybody."""

MOST_NOTES = 16


def few(notes: Any) -> Any:
    """Before each of them is looked at. Raises ValueError."""
    if isinstance(notes, dict) and len(notes) > MOST_NOTES:
        raise ValueError(f"at most {MOST_NOTES} entries; these are {len(notes)}")
    return notes


Notes = Annotated[dict[str, str], BeforeValidator(few)]
"""A request's `metadata`."""

KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
"""OpenAI's words for what sort of error a status is; any other is the request's fault."""


def storable(value: Any, depth: int = 0) -> Any:
    """`gpu_workers.types.storable` for every string in a JSON value, keys included.

    Raises ValueError for what no database keeps as JSON: NaN, Infinity, numbers beyond 64 bits, nesting beyond
    DEEPEST.
    """
    if depth > DEEPEST:
        raise ValueError(f"lists and objects are nested more than {DEEPEST} deep")
    kind = type(value)
    if kind is str:
        return storable_text(value)
    if kind is dict:
        return {storable_text(key): storable(inner, depth + 1) for key, inner in value.items()}
    if kind is list:
        return [storable(inner, depth + 1) for inner in value]
    if kind is float and not math.isfinite(value):
        raise ValueError("NaN and Infinity are no JSON numbers")
    if kind is int and not -(2**63) <= value < 2**64:
        raise ValueError("a whole number is beyond 64 bits")
    return value


class EventStream(StreamingHttpResponse):
    """Server-sent events, closed at their source the moment the reader leaves.

    Django would wrap the source once more and leave it to the garbage collector.
    """

    def __init__(self, source: AsyncGenerator[bytes, None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(source, content_type="text/event-stream; charset=utf-8", headers=headers)
        self.source = source

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self.source


def event(content: Any) -> bytes:
    return f"data: {content if isinstance(content, str) else json.dumps(content)}\n\n".encode()


def shape(error: TalkbackError) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    kind = "server_error" if error.status >= 500 else KINDS.get(error.status, "invalid_request_error")
    return {"message": str(error), "type": kind, "param": error.param, "code": error.code}
