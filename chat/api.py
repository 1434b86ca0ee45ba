"""The OpenAI-compatible door: chat completions, plain and streaming, and the models that answer."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from ninja import Router
from ninja.security import HttpBearer
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from chat import sessions, turns
from chat.models import ApiKey, Turn
from core.errors import TalkbackError
from gpu_workers import engines
from gpu_workers.types import Delta, Sampling
from gpu_workers.types import storable as storable_text
from training.models import Checkpoint

log = logging.getLogger(__name__)


class KeyInvalid(TalkbackError):
    """No key, or one that opens nothing."""

    code, status = "invalid_api_key", 401


class ModelNotFound(TalkbackError):
    code, status = "model_not_found", 404


class NotOffered(TalkbackError):
    """A parameter that is understood and cannot be honoured: saying so beats pretending."""

    code, status = "unsupported_parameter", 400


class Bearer(HttpBearer):
    """`Authorization: Bearer KEY`; the view finds the key as `request.auth`."""

    async def __call__(self, request: HttpRequest) -> ApiKey:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        key = await sync_to_async(opened)(secret.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise KeyInvalid(
                "This API key is not valid, or was revoked. Make one with: python manage.py create_key --name NAME"
                if secret
                else "No API key was given: send it as `Authorization: Bearer KEY`."
            )
        return key

    async def authenticate(self, request: HttpRequest, token: str) -> ApiKey:
        return await self(request)


def opened(secret: str) -> ApiKey | None:
    """The key this secret opens; its last use is noted, to the minute."""
    key = ApiKey.objects.holder(secret)
    now = timezone.now()
    if key is not None and (key.used_at is None or now - key.used_at > timedelta(minutes=1)):
        ApiKey.objects.filter(pk=key.pk).update(used_at=now)
    return key


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


DEEPEST = 100
"""How many lists and objects of a request may stand inside each other."""


def storable(value: Any, depth: int = 0) -> Any:
    """`gpu_workers.types.storable` for every string in a JSON value, keys included.

    Raises ValueError for what no database keeps as JSON: NaN, Infinity, and nesting beyond DEEPEST.
    """
    if depth > DEEPEST:
        raise ValueError(f"lists and objects are nested more than {DEEPEST} deep")
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and Infinity are no JSON numbers")
    if isinstance(value, dict):
        return {storable(key): storable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [storable(inner, depth + 1) for inner in value]
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


router = Router(auth=Bearer(), tags=["chat"])


@router.post("/chat/completions", summary="One reply, plain or streaming")
async def complete(request: HttpRequest, body: Request) -> Any:
    """Answer as OpenAI does. `model` in the answer is name@number: the checkpoint that wrote it."""
    body.check_offered()
    turn = await sync_to_async(begin)(request, body)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return EventStream(events(turn, usage, done=is_done(request, body)))
    last, text = Delta("", (), ()), ""
    async with aclosing(turns.reply(turn, engines.policy())) as deltas:
        async for delta in deltas:
            last, text = delta, text + delta.text
    if is_done(request, body):
        await sync_to_async(sessions.close)(turn.session)
    turn = await Turn.objects.select_related("checkpoint").aget(pk=turn.pk)
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason(last.finish_reason)}
    return head(turn, "chat.completion") | {"choices": [choice], "usage": used(turn)}


def begin(request: HttpRequest, body: Request) -> Turn:
    """Store the request as a turn of the session it belongs to."""
    key: ApiKey = request.auth  # type: ignore[attr-defined]
    checkpoint = chosen(body.model)
    messages = [message.plain() for message in body.messages]
    name = request.headers.get("X-Session-Id") or body.session_id or ""
    side = (request.headers.get("X-Turn-Type") or body.turn_type or "").lower() == "side"
    with transaction.atomic():  # a first request that is refused leaves no session behind
        session, follows = sessions.find(key, messages, external_id=storable(name), user=body.user or "")
        return turns.open_turn(
            session,
            messages,
            sampling=body.sampling(),
            tools=body.tools or (),
            follows=follows,
            line=Turn.Line.SIDE if side else Turn.Line.MAIN,
            checkpoint=checkpoint,
        )


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
        async with aclosing(turns.reply(turn, engines.policy())) as deltas:
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


def event(content: Any) -> bytes:
    return f"data: {content if isinstance(content, str) else json.dumps(content)}\n\n".encode()


def shape(error: TalkbackError) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    kinds = {401: "authentication_error", 404: "not_found_error", 409: "conflict_error", 429: "rate_limit_error"}
    kind = "server_error" if error.status >= 500 else kinds.get(error.status, "invalid_request_error")
    return {"message": str(error), "type": kind, "param": None, "code": error.code}


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


def chosen(model: str) -> Checkpoint:
    """The checkpoint a request asks for: the live one by the plain name, another that may answer by name@number."""
    name, _, number = model.partition("@")
    if name in ("", settings.MODEL_NAME) and not number:
        return Checkpoint.live()
    numbered = name == settings.MODEL_NAME and number.isdecimal() and len(number) < 10
    found = answering().filter(number=int(number)).first() if numbered else None
    if found is not None:
        return found
    raise ModelNotFound(f"There is no model {model!r} here. GET /v1/models lists those that answer.")


def answering() -> QuerySet[Checkpoint]:
    return Checkpoint.objects.filter(status__in=(Checkpoint.Status.LIVE, Checkpoint.Status.RETIRED))


def described(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    created = int(checkpoint.created_at.timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": settings.MODEL_NAME, "root": str(checkpoint)}


@router.get("/models", summary="The models that answer")
async def models(request: HttpRequest) -> dict[str, Any]:
    """The live policy by its plain name, then every checkpoint that may be asked for by number."""
    live = await sync_to_async(Checkpoint.live)()
    named = [described(str(checkpoint), checkpoint) async for checkpoint in answering()]
    return {"object": "list", "data": [described(settings.MODEL_NAME, live), *named]}


@router.get("/models/{name}", summary="One model")
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    return described(name, await sync_to_async(chosen)(name))
