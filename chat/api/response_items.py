"""Translate items of OpenAI's Responses: input items to chat messages, a reply to output items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from chat.api import pictured
from chat.api.request import as_text
from chat.api.sent import NotOffered, Part, Sent
from chat.api.wire import Quick
from chat.models import Turn
from chat.pictures.picture import Picture, say

TEXTS = ("input_text", "output_text", "text", "reasoning_text", "summary_text")

READ = ("message", "function_call", "function_call_output", "reasoning", "item_reference")
"""The kinds of items that are read."""

CUSTOM = {"custom_tool_call": "function_call", "custom_tool_call_output": "function_call_output"}
"""Calls of tools that take one text, and their results, are read as those of functions."""


class ResponsesPart(Part):
    texts = TEXTS

    def said(self, at: str) -> str | Picture:
        """Its words, or its picture. Raises NotOffered for files and sound, and for pictures that are not seen, and
        PictureRefused."""
        words = self.refusal if self.type == "refusal" else self.text if self.type in TEXTS else None
        return pictured.read_part(self, "a part", at) if words is None else words

    def words(self, at: str) -> str:
        """The same where only words may stand. Raises NotOffered."""
        words = self.refusal if self.type == "refusal" else self.text if self.type in TEXTS else None
        if words is None:
            raise NotOffered(f"Words alone stand here: a part of type {self.type!r} cannot be used.", f"{at}.type")
        return words


Content = str | Quick[ResponsesPart]


class ResponsesItem(Sent):
    """One item of the input."""

    model_config = ConfigDict(extra="allow")

    type: str = "message"
    id: str | None = Field(None, validate_default=True)
    role: str | None = Field(None, validate_default=True)
    content: Content | None = Field(None, validate_default=True)
    summary: Quick[ResponsesPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: Content | None = None

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, item: Any) -> Any:
        """A reference may come as nothing but its id, a message without its type."""
        if not isinstance(item, dict):
            return item
        if item.get("type") is None:
            return item | {"type": "message" if "role" in item or "content" in item else "item_reference"}
        if item["type"] == "custom_tool_call":
            item = item | {"arguments": {"input": item.get("input")}}
        kind = item["type"]
        return item | {"type": CUSTOM.get(kind, kind) if isinstance(kind, str) else kind}

    @field_validator("arguments", mode="before")
    @classmethod
    def _text(cls, arguments: Any) -> Any:
        return as_text(arguments)

    @field_validator("id", "role", "content")
    @classmethod
    def _whole(cls, value: Any, field: ValidationInfo) -> Any:
        kind, name, role = field.data.get("type"), field.field_name, field.data.get("role")
        if kind == "item_reference" and name == "id" and value is None:
            raise ValueError("an item of type 'item_reference' needs id")
        if kind == "message" and name == "role" and value not in ("system", "developer", "user", "assistant"):
            raise ValueError(f"a message's role is system, developer, user or assistant, not {value!r}")
        if kind == "message" and name == "content" and value is None and role != "assistant":
            raise ValueError("an item of type 'message' needs content")
        return value


def text(content: Content | None, between: str, at: str) -> str:
    """The words at this place of the request."""
    if isinstance(content, str):
        return content
    return between.join(part.words(f"{at}.{n}") for n, part in enumerate(content or ()))


def told(content: Content | None, at: str) -> dict[str, Any]:
    """The words and pictures at this place of the request, as fields of a message."""
    if isinstance(content, str):
        return {"content": content}
    return say([part.said(f"{at}.{n}") for n, part in enumerate(content or ())], "\n")


def messages(items: Iterable[ResponsesItem], referred: Callable[[str], list[ResponsesItem]]) -> list[dict[str, Any]]:
    """The same in chat completions' shape. All that a model said between two others is one message there.

    `referred` finds the items that an id stands for. Raises NotOffered for items of other kinds.
    """
    said: list[dict[str, Any]] = []
    for n, item in enumerate(items):
        at = f"input.{n}"
        if item.type == "item_reference":
            for kept in referred(item.id or ""):
                tell(said, kept, at)
        elif item.type in READ:
            tell(said, item, at)
        else:
            raise NotOffered(f"Items of type {item.type!r} are not understood here.", f"{at}.type")
    return said


def tell(said: list[dict[str, Any]], item: ResponsesItem, at: str) -> None:
    """Add what the item at this place of the request says to the messages so far."""
    if item.type == "function_call_output":
        said.append({"role": "tool", "tool_call_id": item.call_id} | told(item.output, f"{at}.output"))
        return
    if item.type == "message" and item.role != "assistant":
        # `instructions` alone become the system message: those of a request do not outlast it.
        role = "developer" if item.role == "system" else item.role
        said.append({"role": role} | told(item.content, f"{at}.content"))
        return
    if not said or said[-1]["role"] != "assistant":
        said.append({"role": "assistant", "content": ""})
    reply = said[-1]
    if item.type == "function_call":
        function = {"name": item.name, "arguments": item.arguments}
        reply.setdefault("tool_calls", []).append({"id": item.call_id, "type": "function", "function": function})
    elif item.type == "reasoning":
        thought = text(item.content, "", f"{at}.content") or text(item.summary, "\n\n", f"{at}.summary")
        if thought:
            reply["reasoning_content"] = reply.get("reasoning_content", "") + thought
    else:
        reply["content"] += text(item.content, "", f"{at}.content")


def core(turn: Turn) -> str:
    """What the ids of a reply's items have in common with its own."""
    return turn.completion_id.rpartition("_")[2]


def reasoning(turn: Turn, words: str, *, summed_up: bool, number: int = 0, status: str = "completed") -> dict[str, Any]:
    """`summed_up`: the client asked for a summary, which is where it shows what a model thinks."""
    item: dict[str, Any] = {"id": name("rs", turn, number), "type": "reasoning", "status": status, "summary": []}
    if summed_up:
        return item | {"summary": [{"type": "summary_text", "text": words}]}
    return item | {"content": [{"type": "reasoning_text", "text": words}]}


def message(turn: Turn, words: str, *, number: int = 0, status: str = "completed") -> dict[str, Any]:
    head = {"id": name("msg", turn, number), "type": "message", "role": "assistant", "status": status}
    return head | {"content": [output_text(words)]}


def output_text(words: str) -> dict[str, Any]:
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": []}


def function_call(
    turn: Turn, number: int, call_id: str, called: str, arguments: str, status: str = "completed"
) -> dict[str, Any]:
    head = {"id": name("fc", turn, number), "type": "function_call", "status": status}
    return head | {"call_id": call_id, "name": called, "arguments": arguments}


def name(kind: str, turn: Turn, number: int) -> str:
    return f"{kind}_{core(turn)}" + (f"_{number}" if number else "")


def output(turn: Turn, *, summed_up: bool) -> list[dict[str, Any]]:
    """The kept reply as items: what it thought, said and called. There is always one."""
    said = turn.message or {"content": turn.text}
    last = "completed" if turn.is_whole and turn.finish_reason != "length" else "incomplete"
    items = []
    if thought := said.get("reasoning_content"):
        items.append(reasoning(turn, thought, summed_up=summed_up))
    calls: Sequence[dict[str, Any]] = said.get("tool_calls") or ()
    if said.get("content") or not (calls or thought):
        items.append(message(turn, said.get("content") or ""))
    for number, call in enumerate(calls):
        function = call["function"]
        items.append(function_call(turn, number, call["id"], function["name"], function["arguments"]))
    items[-1]["status"] = last
    return items
