"""Schemas that clients send in fact, which replies and calls are held to, alike at every door."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chat.models import Turn
from tests.chat.api.bodies import CHAT, DOORS, MESSAGES, RESPONSES, refused

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


def held_to(path: str, schema: Any) -> tuple[dict[str, Any], str]:
    """A reply that must satisfy this schema, in the door's words, and where the schema stands."""
    return {
        CHAT: (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
            "response_format.json_schema.schema",
        ),
        RESPONSES: ({"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}}, "text.format.schema"),
        MESSAGES: (
            {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
            "output_config.format.schema",
        ),
    }[path]


def called_with(path: str, schema: Any, name: str = "look") -> tuple[dict[str, Any], str]:
    """A call that must be made, with arguments like this, of the second of two tools, and where its schema stands."""
    inner = {"type": "object", "properties": {}}
    return {
        CHAT: (
            {
                "tools": [
                    {"type": "function", "function": {"name": "wait", "parameters": inner}},
                    {"type": "function", "function": {"name": name, "parameters": schema}},
                ],
                "tool_choice": {"type": "function", "function": {"name": name}},
            },
            "tools.1.function.parameters",
        ),
        RESPONSES: (
            {
                "tools": [
                    {"type": "function", "name": "wait", "parameters": inner},
                    {"type": "function", "name": name, "parameters": schema},
                ],
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "required",
                    "tools": [{"type": "function", "name": name}],
                },
            },
            "tools.1.parameters",
        ),
        MESSAGES: (
            {
                "tools": [{"name": "wait", "input_schema": inner}, {"name": name, "input_schema": schema}],
                "tool_choice": {"type": "tool", "name": name},
            },
            "tools.1.input_schema",
        ),
    }[path]


def schema_of(engine) -> Any:
    """What the engine holds the last reply to."""
    return json.loads(engine.asked("stream")[-1].sampling.json_schema)


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("schema", [{}, True])
async def test_a_schema_that_allows_any_json_is_held_and_not_dropped(send, engine, path, schema):
    more, _ = held_to(path, schema)
    assert (await send(path, more)).status_code == 200
    assert schema_of(engine) == {}
    assert (await Turn.objects.aget()).asked["grammar"] is True


@pytest.mark.parametrize("path", DOORS)
async def test_a_forced_calls_schema_keeps_its_ids_its_pointers_and_its_data(send, engine, path):
    given = {
        "$id": "https://example.org/s",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/x"},
            "b": {"const": {"$ref": "#/x"}},
            "c": {"enum": [None, {"$id": "y"}]},
        },
        "$defs": {"x": {"enum": [1]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    more, _ = called_with(path, given)
    assert (await send(path, more)).status_code == 200
    made = schema_of(engine)
    (arguments,) = [value for name, value in made["properties"].items() if name in ("arguments", "parameters")]
    part = arguments["properties"]["a"]["$ref"].removeprefix("#/$defs/")
    assert made["$defs"][part] == {"enum": [1]}
    assert arguments["properties"]["b"] == {"const": {"$ref": "#/x"}}
    assert arguments["properties"]["c"] == {"enum": [None, {"$id": "y"}]}
    kept = (await Turn.objects.aget()).tools[-1]["function"]["parameters"]
    assert kept == given  # the model is shown what the client wrote


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("asked", [held_to, called_with])
@pytest.mark.parametrize(
    ("part", "where", "said"),
    [
        ({"enum": ["x"], "not": {"const": "x"}}, ".not", "no reply can be held to 'not' here"),
        ({"type": "array", "uniqueItems": True}, ".uniqueItems", "'uniqueItems'"),
        ({"$ref": "#/$defs/nowhere"}, ".$ref", "'#/$defs/nowhere' points to nothing"),
        ({"type": "string", "pattern": "(?=x)"}, "", "look-around"),
    ],
)
async def test_a_keyword_that_cannot_be_held_is_refused_by_name(send, engine, path, asked, part, where, said):
    more, place = asked(path, {"type": "object", "properties": {"a": part}, "required": ["a"]})
    status, code, param, message = await refused(await send(path, more))
    assert (status, code) == (400, "invalid_request")
    assert said in message
    assert f"'#/properties/a{where.replace('.', '/')}'" in message
    assert ("tool 'look'" in message) == (asked is called_with)
    assert path == MESSAGES or param == f"{place}.properties.a{where}"  # Anthropic's errors have no param
    assert not engine.calls
    assert not await Turn.objects.aexists()


async def test_a_keyword_of_a_tool_that_may_be_left_alone_is_no_fault(send, engine):
    """Nothing holds a call that the model chooses to make."""
    more, _ = called_with(CHAT, {"type": "object", "properties": {"a": {"not": {}}}})
    assert (await send(CHAT, more | {"tool_choice": "auto"})).status_code == 200
    assert not engine.asked("stream")[-1].sampling.json_schema


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"response_format": {"type": "json_object", "schema": {"enum": [1]}}}),
        (RESPONSES, {"text": {"format": {"type": "json_object", "schema": {"enum": [1]}}}}),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": {"enum": [1]}}}),
    ],
)
async def test_a_schema_in_other_servers_words_is_held(send, engine, path, more):
    assert (await send(path, more)).status_code == 200
    assert schema_of(engine) == {"enum": [1]}


@pytest.mark.parametrize(
    ("path", "more", "param"),
    [
        (CHAT, {"response_format": {"type": "text", "schema": {}}}, "response_format"),
        (CHAT, {"response_format": {"type": "json_schema", "schema": {}}}, "response_format"),
        (CHAT, {"guided_json": {"type": "object"}}, "guided_json"),
        (RESPONSES, {"text": {"format": {"type": "text", "schema": {}}}}, "text.format"),
    ],
)
async def test_a_schema_that_would_be_passed_over_is_refused(send, path, more, param):
    assert (await refused(await send(path, more)))[::2] == (400, param)
