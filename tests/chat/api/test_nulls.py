"""Null is "not given": at every door, for every field of the schema that need not be given, wherever it stands."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from chat.api.messages import AnthropicPrompt, AnthropicRequest
from chat.api.request import NOT_OFFERED as NOT_IN_CHAT
from chat.api.request import ChatRequest
from chat.api.responses_request import NOT_OFFERED as NOT_IN_RESPONSES
from chat.api.responses_request import ResponsesRequest
from chat.api.sent import CONTINUED, Sent
from chat.models import Turn
from feedback.api import Saying

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

SCHEMA = {"type": "object", "properties": {"a": {"const": None}}, "required": ["a"], "additionalProperties": False}

CHAT = {
    "model": "talkback",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi", "name": "ana"},
        {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No."}],
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "Rain."},
        {"role": "user", "content": "And now?"},
    ],
    "max_tokens": 9,
    "stream_options": {"include_usage": True},
    "metadata": {"a": "b"},
    "tools": [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
}
HELD = {
    "messages": [{"role": "user", "content": "Hi"}],
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "description": "An x.", "schema": SCHEMA, "strict": True},
    },
}
RESPONSES = {
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "Rain."}]},
        {"role": "user", "content": "And now?"},
    ],
    "instructions": "Be brief.",
    "reasoning": {"effort": "low", "summary": "auto"},
    "tools": [{"type": "function", "name": "look", "description": "Look.", "parameters": SCHEMA, "strict": True}],
    "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look"}]},
    "metadata": {"a": "b"},
}
FORMATTED = {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}
MESSAGES = {
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "a",
                    "is_error": True,
                    "content": [{"type": "text", "text": "-"}],
                },
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [{"name": "look", "type": "custom", "description": "Look.", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
    "metadata": {"user_id": "ana"},
}
SHAPED = {
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "output_format": {"type": "json_schema", "schema": SCHEMA},
}

DOORS: dict[str, tuple[type[Sent], list[dict[str, Any]], list[str]]] = {
    "/v1/chat/completions": (ChatRequest, [CHAT, HELD], [*NOT_IN_CHAT, *CONTINUED, "modalities"]),
    "/v1/responses": (ResponsesRequest, [RESPONSES, FORMATTED], [*NOT_IN_RESPONSES, *CONTINUED]),
    "/v1/messages": (AnthropicRequest, [MESSAGES, SHAPED], [*CONTINUED, "thinking"]),
    "/v1/messages/count_tokens": (AnthropicPrompt, [MESSAGES], []),
}
"""Each with its shape, bodies that hold every shape inside it, and fields that only its words know."""


def shapes_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [shape for inner in get_args(annotation) for shape in shapes_in(inner)]


def inside(shape: type[BaseModel]) -> set[type[BaseModel]]:
    """The shape, and all that its fields may hold."""
    found: set[type[BaseModel]] = set()
    waiting = [shape]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += [inner for field in one.model_fields.values() for inner in shapes_in(field.annotation)]
    return found


Place = tuple[tuple[str | int, ...], str, type[BaseModel]]


def optional(shape: type[BaseModel], body: dict[str, Any], at: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Each field of a body that need not be given: where it stands, its name, and whose it is."""
    for name, field in shape.model_fields.items():
        name = field.alias or name
        if not field.is_required():
            yield at, name, shape
        value = body.get(name)
        for n, inner in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(inner, dict):
                for one in shapes_in(field.annotation):
                    yield from optional(one, inner, (*at, name) if n is None else (*at, name, n))


def without(body: dict[str, Any], at: tuple[str | int, ...], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The body without this field, and with null in its place."""
    absent = copy.deepcopy(body)
    holder: Any = absent
    for step in at:
        holder = holder[step]
    holder.pop(name, None)
    null = copy.deepcopy(absent)
    holder = null
    for step in at:
        holder = holder[step]
    holder[name] = None
    return absent, null


async def answered(send, path: str, body: dict[str, Any]) -> tuple[int, Any, Any]:
    """The status, the answer without what is another each time, and what was kept of the request."""
    before = await Turn.objects.acount()
    answer = await send(path, body)
    turn = await Turn.objects.order_by("-created_at").afirst() if await Turn.objects.acount() > before else None
    said = json.loads(answer.content)
    for name in ("id", "created", "created_at", "completed_at", "session_id", "request_id"):
        said.pop(name, None)
    for item in said.get("output") or ():
        item.pop("id", None)
    if turn is None:
        return answer.status_code, said, None
    asked = {name: value for name, value in turn.asked.items() if name not in ("event", "of")}
    kept = (turn.messages, turn.tools, turn.prompt_ids, turn.sampling, turn.learns, turn.line, asked)
    return answer.status_code, said, kept


@pytest.fixture
def send(async_client, key, engine):
    async def send(path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {key.secret}"}
        return await async_client.post(path, json.dumps(body), content_type="application/json", headers=headers)

    return send


@pytest.mark.parametrize("path", DOORS)
async def test_absent_and_null_answer_alike(send, path):
    shape, bodies, words = DOORS[path]
    seen: set[type[BaseModel]] = {shape}
    for body in bodies:
        whole = await answered(send, path, body)
        assert whole[0] == 200, whole
        for at, name, owner in [*optional(shape, body), *(((), name, shape) for name in words)]:
            seen.add(owner)
            absent, null = without(body, at, name)
            expected = whole if absent == body else await answered(send, path, absent)
            assert await answered(send, path, null) == expected, (*at, name)
    assert seen >= {one for one in inside(shape) if any(not field.is_required() for field in one.model_fields.values())}


async def test_absent_and_null_answer_alike_in_feedback_where_null_takes_nothing_back(send):
    await send("/v1/chat/completions", HELD)
    turn = await Turn.objects.aget()
    for body in (
        {"id": turn.completion_id, "thumb": "up"},
        {"id": turn.completion_id, "marks": [{"good": True, "text": turn.text[:3]}]},
        {"id": turn.completion_id, "marks": [{"good": True, "start": 0, "end": 3}]},
    ):
        assert (await send("/v1/feedback", body)).status_code == 200
        fields = [(at, name) for at, name, owner in optional(Saying, body) if at or name not in Saying.null_says]
        assert fields
        for at, name in [*fields, ((), "completion_id")]:
            absent, null = [await answered(send, "/v1/feedback", one) for one in without(body, at, name)]
            assert absent == null, (*at, name)


def test_the_schema_says_that_null_may_be_sent(client):
    shapes = client.get("/v1/openapi.json").json()["components"]["schemas"]
    assert {"type": "null"} in shapes["AnthropicToolChoice"]["properties"]["disable_parallel_tool_use"]["anyOf"]
    assert {"type": "null"} in shapes["AnthropicPrompt"]["properties"]["tool_choice"]["anyOf"]
    assert "anyOf" not in shapes["AnthropicRequest"]["properties"]["max_tokens"]
