"""Anthropic's Messages, plain and streaming. docs/protocols.md says what becomes of every parameter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from chat import asking, calling
from chat.api import streaming
from chat.api.access import Bearer, key_of
from chat.api.addressing import Addressed, addressed
from chat.api.anthropic_events import PING, MessageEvents, answer
from chat.api.aside import Router
from chat.api.catalog import chosen
from chat.api.protocol_shapes import MessageAnswer, TokensCounted, events_of
from chat.api.request import MOST_TOOLS, NotOffered
from chat.api.wire import Quick
from chat.asking import Ask
from chat.models import ApiKey, Turn
from chat.rendering import Overlong, Renderer
from chat.turns import ContextTooLong
from core import threads
from gpu_workers.types import Sampling

COUNTED = 4
"""How many times what the model's window holds is counted."""

NEEDED = {"text": "text", "thinking": "thinking", "tool_use": "name", "tool_result": "tool_use_id"}
"""What a block of each kind must hold; blocks of other kinds are refused by name, or left out."""

LEFT_OUT = ("redacted_thinking",)

LONGEST_USER = 1024
"""Characters of a `metadata.user_id`."""

EXAMPLES: list[Any] = [
    {"model": settings.MODEL_NAME, "max_tokens": 200, "messages": [{"role": "user", "content": "What is a rainbow?"}]},
    {
        "model": settings.MODEL_NAME,
        "max_tokens": 200,
        "stream": True,
        "system": "Answer in one short sentence.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "How warm is it in Lisbon?"}]}],
        "tools": [
            {
                "name": "weather",
                "description": "The weather in a town.",
                "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
            }
        ],
    },
]


class AnthropicBlock(BaseModel):
    """One block of a message's content."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: str | Quick[AnthropicBlock] | None = None
    is_error: bool | None = None

    @model_validator(mode="after")
    def _whole(self) -> AnthropicBlock:
        needed = NEEDED.get(self.type)
        if needed and getattr(self, needed) is None:
            raise ValueError(f"a block of type {self.type!r} needs {needed}")
        return self

    def words(self) -> str:
        """The text of a text block. Raises NotOffered for images and documents."""
        if self.type != "text":
            raise NotOffered(f"This model reads text only: a content block of type {self.type!r} cannot be used.")
        return self.text or ""


def joined(content: str | Sequence[AnthropicBlock] | None) -> str:
    return content if isinstance(content, str) else "\n".join(block.words() for block in content or ())


class AnthropicMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant", "system"]
    content: str | Quick[AnthropicBlock]

    def plain(self) -> list[dict[str, Any]]:
        """The same in chat completions' shape: a user's message may hold several tools' results."""
        if isinstance(self.content, str):
            return [{"role": self.role, "content": self.content}]
        return [reply(self.content)] if self.role == "assistant" else list(heard(self.role, self.content))


def reply(blocks: Sequence[AnthropicBlock]) -> dict[str, Any]:
    """An assistant's message. What the model wrote in one piece comes back in blocks: they are put together again."""
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: list[dict[str, Any]] = []
    for block in blocks:
        if block.type == "thinking":
            said["reasoning_content"] = said.get("reasoning_content", "") + (block.thinking or "")
        elif block.type == "tool_use":
            function = {"name": block.name, "arguments": json.dumps(block.input or {}, ensure_ascii=False)}
            calls.append({"id": block.id or "", "type": "function", "function": function})
        elif block.type not in LEFT_OUT:
            said["content"] += block.words()
    return said | ({"tool_calls": calls} if calls else {})


def heard(role: str, blocks: Sequence[AnthropicBlock]) -> list[dict[str, Any]]:
    """What a user and the tools said, in its order; texts side by side are one message."""
    messages: list[dict[str, Any]] = []
    for block in blocks:
        if block.type == "tool_result":
            said = joined(block.content)
            if block.is_error and not said.lower().startswith("error"):
                said = f"Error: {said}"  # chat completions have no flag for it, and a model reads only words
            messages.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": said})
        elif messages and messages[-1]["role"] == role:
            messages[-1]["content"] += "\n" + block.words()
        else:
            messages.append({"role": role, "content": block.words()})
    return messages


class AnthropicTool(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=128)
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """As a function. Raises NotOffered for a tool that Anthropic's own servers or models bring."""
        if self.type not in (None, "custom"):
            raise NotOffered(f"Tool {self.name!r} is of type {self.type!r}: it is not offered here.")
        function: dict[str, Any] = {"name": self.name, "parameters": self.input_schema or {"type": "object"}}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


class AnthropicToolChoice(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str = ""
    disable_parallel_tool_use: bool = False

    @model_validator(mode="after")
    def _named(self) -> AnthropicToolChoice:
        if self.type == "tool" and not self.name:
            raise ValueError("tool_choice of type 'tool' needs a name")
        return self

    def plain(self) -> str:
        return {"any": "required", "tool": f"={self.name}"}.get(self.type, self.type)


class AnthropicMetadata(BaseModel):
    model_config = ConfigDict(extra="allow")

    user_id: str | None = Field(None, max_length=LONGEST_USER)


class AnthropicFormat(BaseModel):
    model_config = ConfigDict(extra="ignore")

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class AnthropicOutput(BaseModel):
    model_config = ConfigDict(extra="ignore")

    format: AnthropicFormat | None = None


class AnthropicPrompt(Addressed):
    """What a prompt is made of."""

    messages: Quick[AnthropicMessage] = Field(min_length=1)
    model: str = ""
    system: str | Quick[AnthropicBlock] | None = None
    tools: Quick[AnthropicTool] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: AnthropicToolChoice = AnthropicToolChoice()

    @model_validator(mode="after")
    def _sensible(self) -> AnthropicPrompt:
        if self.messages[-1].role == "assistant":
            raise ValueError("a reply cannot be begun for the model: the last message must be a user's")
        if self.tool_choice.type == "any" and not self.tools:
            raise ValueError("a tool must be called, and no tools are given")
        if self.tool_choice.type == "tool" and all(tool.name != self.tool_choice.name for tool in self.tools or ()):
            raise ValueError(f"tool_choice names {self.tool_choice.name!r}, which is none of the tools")
        return self

    def plain(self) -> list[dict[str, Any]]:
        """The whole conversation in chat completions' shape."""
        system = joined(self.system)
        before = [{"role": "system", "content": system}] if system else []
        return before + [said for message in self.messages for said in message.plain()]

    def functions(self) -> list[dict[str, Any]]:
        return [tool.plain() for tool in self.tools or ()]


class AnthropicRequest(AnthropicPrompt):
    """What is understood of Anthropic's request."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": EXAMPLES})

    max_tokens: int = Field(ge=1)
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0)
    stop_sequences: Quick[str] | None = None
    metadata: AnthropicMetadata | None = None
    output_config: AnthropicOutput | None = None

    @field_validator("stop_sequences")
    @classmethod
    def _few_stops(cls, stops: list[str] | None) -> list[str]:
        stops = stops or []
        if len(stops) > 16 or any(not 0 < len(one) <= 200 for one in stops):
            raise ValueError("stop_sequences takes up to 16 strings of 1 to 200 characters")
        return stops

    def sampling(self) -> Sampling:
        given: dict[str, Any] = {
            "max_new_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k or None,
            "stop": tuple(self.stop_sequences or ()),
        }
        return Sampling(**{name: value for name, value in given.items() if value is not None})

    def ask(self, request: HttpRequest, key: ApiKey) -> Ask:
        """The request in every protocol's terms. Raises ModelNotFound and NotOffered."""
        format = self.output_config.format if self.output_config else None
        if format and self.tools and self.tool_choice.type != "none":
            raise NotOffered(
                "A reply cannot be held to a schema while it may call tools: leave output_config.format out, or send "
                "tool_choice none.",
                "output_config.format",
            )
        return Ask(
            messages=self.plain(),
            sampling=self.sampling(),
            checkpoint=chosen(self.model, key),
            protocol="messages",
            prefix="msg_",
            tools=self.functions(),
            tool_choice=self.tool_choice.plain(),
            parallel_tool_calls=not self.tool_choice.disable_parallel_tool_use,
            schema=format.schema_ if format else None,
            user=conversation((self.metadata and self.metadata.user_id) or ""),
            metadata=self.metadata.model_dump(exclude_none=True) if self.metadata else {},
            **self.address(request),
        )


def conversation(user_id: str) -> str:
    """What of a `metadata.user_id` tells conversations apart: agents put a session into it, in two ways.

    >>> conversation('{"device_id": "d", "session_id": "54c1"}'), conversation("user_1f_account_2e_session_57a1")
    ('54c1', '57a1')
    >>> conversation("ana")
    'ana'
    """
    with suppress(ValueError, RecursionError):
        parts = json.loads(user_id)
        if isinstance(parts, dict) and isinstance(parts.get("session_id"), str):
            return str(parts["session_id"])
    head, _, session = user_id.rpartition("_session_")
    return session if session and head.startswith("user_") and "_account_" in head else user_id


router = Router(auth=Bearer(), tags=["chat"])


@router.post(
    "/messages",
    auth=Bearer(knocks=True),
    summary="One reply, as Anthropic's Messages give it",
    response=MessageAnswer,
    openapi_extra=events_of("its events, as Anthropic names them.", PING),
)
async def create(request: HttpRequest, body: AnthropicRequest) -> HttpResponseBase:
    """Answer as Anthropic does. `model` in the answer is name@number: the checkpoint that wrote it.

    A reader that leaves stops the engine, whether it waits for a stream or for the whole.
    """
    turns = await streaming.begun(partial(begin, request, body))
    done, stops = body.address(request)["session_done"], body.stop_sequences or []
    if body.stream:
        response: HttpResponseBase = await streaming.stream(turns, MessageEvents(turns[0], stops), done=done)
    else:
        (kept,) = await streaming.whole(turns, done=done)
        response = JsonResponse(answer(kept, stops))
    return addressed(response, turns[0].session)


def begin(request: HttpRequest, body: AnthropicRequest) -> list[Turn]:
    """Store the request as a turn of the session it belongs to."""
    key = key_of(request)
    return asking.begin(key, body.ask(request, key))


@router.post("/messages/count_tokens", summary="How long a prompt is", response=TokensCounted)
async def count(request: HttpRequest, body: AnthropicPrompt) -> dict[str, int]:
    """Nothing is stored, and no engine is asked. What is many times too long is not counted to its end: 400 then."""

    def counted() -> int:
        renderer = Renderer.for_model(settings.MODEL)
        asked = {"tool_choice": body.tool_choice.plain()}
        form = calling.form(renderer.style, renderer.opening, body.functions(), asked)
        window = renderer.context_length
        try:
            return len(renderer.prompt_ids(body.plain(), form.tools or None, form.opened, most=COUNTED * window))
        except Overlong as much:
            raise ContextTooLong(window, much.tokens) from None

    await threads.call(partial(chosen, body.model, key_of(request)))
    return {"input_tokens": await asyncio.to_thread(counted)}
