"""OpenAI's chat completions, plain and streaming."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from chat import asking, replies, sessions, turns
from chat.api.access import Bearer
from chat.api.catalog import chosen
from chat.api.wire import EventStream, event, shape, storable
from chat.asking import Ask
from chat.models import Turn
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.types import Sampling

log = logging.getLogger(__name__)


class NotOffered(TalkbackError):
    """A parameter that is understood and cannot be honoured: saying so beats pretending."""

    code, status = "unsupported_parameter", 400


class Part(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class Message(BaseModel):
    """One message of the conversation; content as text or as a list of text parts."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None

    def plain(self) -> dict[str, Any]:
        """As it is stored: the content is one text. Raises NotOffered for images and sound."""
        said = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            if other := next((part.type for part in self.content if part.text is None), None):
                raise NotOffered(f"This model reads text only: a content part of type {other!r} cannot be used.")
            said["content"] = "\n".join(part.text or "" for part in self.content)
        return said


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class Request(BaseModel):
    """What is understood of OpenAI's chat completion request; docs/api.md says what becomes of the rest."""

    model_config = ConfigDict(extra="allow")

    messages: list[Message] = Field(min_length=1)
    model: str = ""
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    stop: str | list[str] | None = None
    seed: int | None = None
    n: int | None = Field(None, ge=1)
    user: str | None = None
    tools: list[dict[str, Any]] | None = None
    session_id: str | None = None
    turn_type: str | None = None
    session_done: bool | None = None
    response_format: dict[str, Any] | None = None

    @field_validator("stop")
    @classmethod
    def _few_stops(cls, stop: str | list[str] | None) -> list[str]:
        stops = [stop] if isinstance(stop, str) else stop or []
        if len(stops) > 16 or any(not 0 < len(one) <= 200 for one in stops):
            raise ValueError("stop takes up to 16 strings of 1 to 200 characters")
        return stops

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, body: Any) -> Any:
        return storable(body)

    def sampling(self) -> Sampling:
        given: dict[str, Any] = {
            "max_new_tokens": self.max_completion_tokens or self.max_tokens or turns.MAX_NEW_TOKENS,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "stop": tuple(self.stop or ()),
            "seed": self.seed,
        }
        return Sampling(**{name: value for name, value in given.items() if value is not None})

    def check_offered(self) -> None:
        """Raises NotOffered for what would silently be something else than was asked for."""
        if (self.n or 1) > 1:
            raise NotOffered("One reply is written at a time: leave n out, or send the request n times.")
        if (self.response_format or {}).get("type", "text") != "text":
            raise NotOffered("This engine cannot be held to a JSON grammar: ask for JSON in the messages instead.")


router = Router(auth=Bearer(), tags=["chat"])


@router.post("/chat/completions", summary="One reply, plain or streaming")
async def complete(request: HttpRequest, body: Request) -> Any:
    """Answer as OpenAI does. `model` in the answer is name@number: the checkpoint that wrote it."""
    body.check_offered()
    turn = await sync_to_async(begin)(request, body)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(events(turn, usage, done=is_done(request, body)))
    last, text = replies.Spoken(), ""
    async with aclosing(replies.reply(turn, engines.policy())) as deltas:
        async for delta in deltas:
            last, text = delta, text + delta.text
    if is_done(request, body):
        await sync_to_async(sessions.close)(turn.session)
    turn = await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason(last.finish_reason)}
    return head(turn, "chat.completion") | {"choices": [choice], "usage": used(turn)}


def asked(request: HttpRequest, body: Request) -> Ask:
    """The request in every protocol's terms."""
    side = request.headers.get("X-Turn-Type") or body.turn_type or ""
    return Ask(
        messages=[message.plain() for message in body.messages],
        sampling=body.sampling(),
        checkpoint=chosen(body.model),
        tools=body.tools or (),
        headers={name.lower(): value for name, value in request.headers.items() if name.lower() != "authorization"},
        session_id=storable(request.headers.get("X-Session-Id") or body.session_id or ""),
        turn_type=side,
        session_done=is_done(request, body),
        user=body.user or "",
        body=request.body,
    )


def begin(request: HttpRequest, body: Request) -> Turn:
    """Store the request as a turn of the session it belongs to."""
    (turn,) = asking.begin(request.auth, asked(request, body))  # type: ignore[attr-defined]
    return turn


def is_done(request: HttpRequest, body: Request) -> bool:
    header = request.headers.get("X-Session-Done")
    return header.lower() in ("1", "true", "yes") if header is not None else bool(body.session_done)


async def events(turn: Turn, include_usage: bool, *, done: bool) -> AsyncGenerator[bytes, None]:
    """The reply as server-sent events. A delta without text keeps the stream alive while the engine is waited for.

    A reader that leaves closes this, which stops the engine. A failure is an event: the status went out long ago.
    """
    start = head(turn, "chat.completion.chunk") | ({"usage": None} if include_usage else {})

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(start | {"choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async with aclosing(replies.reply(turn, engines.policy())) as deltas:
            async for delta in deltas:
                if delta.text or not delta.ids:
                    yield chunk({"content": delta.text} if delta.text else {})
                if delta.finish_reason:
                    yield chunk({}, reason(delta.finish_reason))
    except TalkbackError as failure:
        yield event({"error": shape(failure)})
        yield event("[DONE]")
        return
    except Exception:
        log.exception("turn %s broke in mid-stream", turn.pk)
        yield event({"error": shape(TalkbackError("Something went wrong here; the log has the details."))})
        yield event("[DONE]")
        return
    if done:
        await sync_to_async(sessions.close)(turn.session)
    if include_usage:
        finished = await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)
        yield event(start | {"choices": [], "usage": used(finished)})
    yield event("[DONE]")


def head(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": turn.completion_id,
        "object": kind,
        "created": int(turn.created_at.timestamp()),
        "model": str(turn.checkpoint),
        "system_fingerprint": None,
    }


def used(turn: Turn) -> dict[str, Any]:
    prompt, reply = len(turn.prompt_ids), len(turn.response_ids)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
    }


def reason(finish: str | None) -> str:
    """OpenAI knows no abort: a reply that somebody stopped has stopped."""
    return "length" if finish == "length" else "stop"
