"""Serve Anthropic's Messages, plain and streaming. docs/reference/protocols.md says what becomes of every parameter."""

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
from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from chat import asking
from chat.api import pictured, streaming
from chat.api.access import Bearer, key_of
from chat.api.addressing import Addressed, set_session_header
from chat.api.anthropic_events import PING, MessageEvents, answer
from chat.api.aside import Router, opens, turns_of
from chat.api.catalog import choose_checkpoint
from chat.api.protocol_shapes import MessageAnswer, TokensCounted, events_of
from chat.api.request import MOST_TOOLS, Schema, as_text
from chat.api.sent import NotOffered, Sent, check_not_begun, require_words
from chat.api.wire import Quick
from chat.api_keys import ApiKey
from chat.models import Turn
from chat.pictures.picture import Picture, say
from chat.rendering import calling
from chat.rendering.renderer import Overlong, Renderer
from chat.requests import Ask
from chat.turns import ContextTooLong
from core import threads
from gpu_workers.types import Sampling

COUNTED = 4
"""How many times what the model's window holds is counted."""

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


class AnthropicBlock(Sent):
    """One block of a message's content."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = Field(None, validate_default=True)
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: str | Quick[AnthropicBlock] | None = None
    is_error: bool | None = None

    @field_validator("text")
    @classmethod
    def _is_told(cls, words: str | None, field: ValidationInfo) -> str | None:
        return require_words(words, field, ("text",))

    def said(self, at: str) -> str | Picture:
        """The text of a text block, or its picture. Raises NotOffered for documents, and for pictures that are not
        seen, and PictureRefused."""
        return self.text or "" if self.type == "text" else pictured.read_part(self, "a content block", at)

    def words(self, at: str) -> str:
        """The same where only words may stand. Raises NotOffered."""
        if self.type != "text":
            raise NotOffered(f"Words alone stand here: a block of type {self.type!r} cannot be used.", f"{at}.type")
        return self.text or ""


def joined(content: str | Sequence[AnthropicBlock] | None, at: str) -> str:
    """The words at this place of the request."""
    if isinstance(content, str):
        return content
    return "\n".join(block.words(f"{at}.{n}") for n, block in enumerate(content or ()))


class AnthropicMessage(Sent):
    model_config = ConfigDict(extra="ignore")

    role: Literal["user", "assistant", "system"]
    content: str | Quick[AnthropicBlock] | None = Field(None, validate_default=True)

    @field_validator("content")
    @classmethod
    def _says_something(cls, content: Any, field: ValidationInfo) -> Any:
        role = field.data.get("role")
        if content is None and role in ("user", "system"):
            raise ValueError(f"a {role} message needs content")
        return content

    def plain(self, at: str) -> list[dict[str, Any]]:
        """The same in chat completions' shape: a user's message may hold several tools' results."""
        if self.content is None or isinstance(self.content, str):
            return [{"role": self.role, "content": self.content or ""}]
        at = f"{at}.content"
        return [reply(self.content, at)] if self.role == "assistant" else split_messages(self.role, self.content, at)


def reply(blocks: Sequence[AnthropicBlock], at: str) -> dict[str, Any]:
    """An assistant's message. What the model wrote in one piece comes back in blocks: they are put together again.
    A past call is taken as it was."""
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: list[dict[str, Any]] = []
    for n, block in enumerate(blocks):
        if block.type == "thinking":
            said["reasoning_content"] = said.get("reasoning_content", "") + (block.thinking or "")
        elif block.type == "tool_use":
            arguments = as_text({} if block.input is None else block.input)
            function = {"name": block.name or "", "arguments": arguments}
            calls.append({"id": block.id or "", "type": "function", "function": function})
        elif block.type not in LEFT_OUT:
            said["content"] += block.words(f"{at}.{n}")
    return said | ({"tool_calls": calls} if calls else {})


def split_messages(role: str, blocks: Sequence[AnthropicBlock], at: str) -> list[dict[str, Any]]:
    """What a user and the tools said, in its order; texts side by side are one message."""
    messages: list[dict[str, Any]] = []
    parts: list[str | Picture] = []
    for n, block in enumerate(blocks):
        if block.type == "tool_result":
            messages.append(result(block, f"{at}.{n}.content"))
            parts = []
            continue
        if not (messages and messages[-1]["role"] == role):
            messages.append({"role": role})
        parts.append(block.said(f"{at}.{n}"))
        messages[-1] |= say(parts, "\n")
    return messages or [{"role": role, "content": ""}]


def result(block: AnthropicBlock, at: str) -> dict[str, Any]:
    """What a tool answered."""
    parts: list[str | Picture] = []
    if isinstance(block.content, str):
        parts = [block.content]
    else:
        parts = [one.said(f"{at}.{n}") for n, one in enumerate(block.content or ())]
    words = next((one for one in parts if isinstance(one, str)), "")
    if block.is_error and not words.lower().startswith("error"):
        # Chat completions have no flag for it, and a model reads only words.
        first = next((n for n, one in enumerate(parts) if isinstance(one, str)), None)
        parts = ["Error: ", *parts] if first is None else [*parts[:first], f"Error: {words}", *parts[first + 1 :]]
    return {"role": "tool", "tool_call_id": block.tool_use_id or ""} | say(parts, "\n")


class AnthropicTool(Sent):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1, max_length=128)
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None

    def plain(self, at: str) -> dict[str, Any]:
        """As a function. Raises NotOffered for a tool that Anthropic's own servers or models bring."""
        if self.type not in (None, "custom"):
            raise NotOffered(f"Tool {self.name!r} is of type {self.type!r}: it is not offered here.", f"{at}.type")
        function: dict[str, Any] = {"name": self.name, "parameters": self.input_schema or {"type": "object"}}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


class AnthropicToolChoice(Sent):
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


class AnthropicMetadata(Sent):
    model_config = ConfigDict(extra="allow")

    user_id: str | None = Field(None, max_length=LONGEST_USER)


class AnthropicFormat(Sent):
    model_config = ConfigDict(extra="ignore")

    type: Literal["json_schema"] = "json_schema"
    schema_: Schema = Field(alias="schema")


class AnthropicOutput(Sent):
    model_config = ConfigDict(extra="ignore")

    format: AnthropicFormat | None = None


class AnthropicPrompt(Addressed):
    """The part of Anthropic's request that makes the prompt."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "What is a rainbow?"}]}]},
    )

    messages: Quick[AnthropicMessage] = Field(min_length=1)
    model: str = ""
    system: str | Quick[AnthropicBlock] | None = None
    tools: Quick[AnthropicTool] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: AnthropicToolChoice = AnthropicToolChoice()

    @model_validator(mode="after")
    def _sensible(self) -> AnthropicPrompt:
        if self.tool_choice.type == "any" and not self.tools:
            raise ValueError("a tool must be called, and no tools are given")
        if self.tool_choice.type == "tool" and all(tool.name != self.tool_choice.name for tool in self.tools or ()):
            raise ValueError(f"tool_choice names {self.tool_choice.name!r}, which is none of the tools")
        return self

    def plain(self) -> list[dict[str, Any]]:
        """The whole conversation in chat completions' shape."""
        system = joined(self.system, "system")
        before = [{"role": "system", "content": system}] if system else []
        return before + [said for n, message in enumerate(self.messages) for said in message.plain(f"messages.{n}")]

    def functions(self) -> list[dict[str, Any]]:
        return [tool.plain(f"tools.{n}") for n, tool in enumerate(self.tools or ())]


class AnthropicRequest(AnthropicPrompt):
    """Anthropic's request, as far as it is understood."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": EXAMPLES})

    max_tokens: int = Field(ge=1)
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0)
    stop_sequences: Quick[str] | None = None
    metadata: AnthropicMetadata | None = None
    output_config: AnthropicOutput | None = None
    output_format: AnthropicFormat | None = None
    """What output_config.format was called before."""

    @field_validator("stop_sequences")
    @classmethod
    def _few_stops(cls, stops: list[str] | None) -> list[str]:
        stops = stops or []
        if len(stops) > 16 or any(not 0 < len(one) <= 200 for one in stops):
            raise ValueError("stop_sequences takes up to 16 strings of 1 to 200 characters")
        return stops

    @property
    def held(self) -> tuple[AnthropicFormat | None, str]:
        """The format that the reply is held to, and where it stands."""
        if self.output_config and self.output_config.format:
            return self.output_config.format, "output_config.format"
        return self.output_format, "output_format"

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
        check_not_begun(self.model_extra)
        format, place = self.held
        if format and self.tools and self.tool_choice.type != "none":
            raise NotOffered(
                f"A reply cannot be held to a schema while it may call tools: leave {place} out, or send "
                "tool_choice none.",
                place,
            )
        tools = {f"tool {tool.name}": f"tools.{n}.input_schema" for n, tool in enumerate(self.tools or ())}
        return Ask(
            messages=self.plain(),
            sampling=self.sampling(),
            checkpoint=choose_checkpoint(self.model, key),
            protocol="messages",
            prefix="msg_",
            tools=self.functions(),
            tool_choice=self.tool_choice.plain(),
            parallel_tool_calls=not self.tool_choice.disable_parallel_tool_use,
            schema=format.schema_ if format else None,
            user=conversation((self.metadata and self.metadata.user_id) or ""),
            metadata=self.metadata.model_dump(exclude_none=True) if self.metadata else {},
            places=tools | {"schema": f"{place}.schema"},
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


def open_turns(request: HttpRequest, body: AnthropicRequest) -> list[Turn]:
    """Store the request as a turn of the session it belongs to."""
    key = key_of(request)
    return asking.open_turns(key, body.ask(request, key))


@router.post(
    "/messages",
    summary="One reply, as Anthropic's Messages give it",
    response=MessageAnswer,
    openapi_extra=events_of("its events, as Anthropic names them.", PING),
)
@opens(open_turns)
async def create(request: HttpRequest, body: AnthropicRequest) -> HttpResponseBase:
    """Answer as Anthropic does. `model` in the answer is name@number: the checkpoint that wrote it.

    A reader that leaves stops the engine, whether it waits for a stream or for the whole.
    """
    turns = turns_of(request)
    done, stops = body.address(request)["session_done"], body.stop_sequences or []
    if body.stream:
        response: HttpResponseBase = await streaming.stream(turns, MessageEvents(turns[0], stops), done=done)
    else:
        (kept,) = await streaming.answer_whole(turns, done=done)
        response = JsonResponse(answer(kept, stops))
    return set_session_header(response, turns[0].session)


@router.post("/messages/count_tokens", summary="How long a prompt is", response=TokensCounted)
async def count(request: HttpRequest, body: AnthropicPrompt) -> dict[str, int]:
    """Any conversation is counted, also one that nothing is to be replied to. Nothing is stored, and no engine is
    asked. What is many times too long is not counted to its end: 400 then."""

    def counted() -> int:
        renderer = Renderer.for_model(settings.MODEL)
        asked = {"tool_choice": body.tool_choice.plain()}
        form = calling.form(renderer.style, renderer.opening, body.functions(), asked)
        window, said = renderer.context_length, body.plain()
        is_ended = said[-1]["role"] == "assistant"
        opened = "" if is_ended else form.opened
        try:
            ids = renderer.prompt_ids(said, form.tools or None, opened, reply=not is_ended, most=COUNTED * window)
            return len(ids)
        except Overlong as much:
            raise ContextTooLong(window, much.tokens) from None

    await threads.call(partial(choose_checkpoint, body.model, key_of(request)))
    return {"input_tokens": await asyncio.to_thread(counted)}
