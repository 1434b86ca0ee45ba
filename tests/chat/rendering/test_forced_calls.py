"""A model of 135 million weights that must call a tool does so in a form that a client can run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chat.rendering.calling import form
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.servers.processes import ONE_THREAD, EngineProcess, embedded_command
from gpu_workers.types import Sampling
from installation.findings import free_port

pytestmark = pytest.mark.real_model

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city now.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 40},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city", "unit"],
                "additionalProperties": False,
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "The sum of two whole numbers.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "minimum": 0, "maximum": 1000},
                    "b": {"type": "integer", "minimum": 0, "maximum": 1000},
                },
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        },
    },
]
ASKED = [{"role": "user", "content": "What is the weather in Paris, in celsius?"}]


@pytest.fixture(scope="module")
def engine(smol_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    port = free_port()
    log = tmp_path_factory.mktemp("engine") / "engine.log"
    with EngineProcess(
        embedded_command(str(smol_model), port), f"http://127.0.0.1:{port}", log, environment=ONE_THREAD
    ) as process:
        yield EngineClient(process.url, timeout_s=120)


async def answered(
    engine: Engine, model: Path, asked: dict[str, object], tools: list[dict[str, Any]] = TOOLS, **sampling: object
) -> tuple[Reader, str]:
    renderer = Renderer.for_model(model)
    held = form(renderer.style, renderer.opening, tools, asked)
    ids = renderer.prompt_ids(ASKED, held.tools or None, held.opened)
    reader = Reader.of(tools, asked | held.asked)
    settings = Sampling(**{"max_new_tokens": 120, "temperature": 0, **held.sampling, **sampling})  # type: ignore[arg-type]
    finish = ""
    async for delta in engine.stream(ids, settings):
        reader.feed(delta.text)
        finish = delta.finish_reason or finish
    reader.end()
    return reader, finish


@pytest.mark.parametrize("choice", ["required", "=get_weather", "=add"])
@pytest.mark.parametrize("temperature", [0, 1.0])
async def test_a_call_that_must_be_made_is_made(
    engine: Engine, smol_model: Path, choice: str, temperature: float
) -> None:
    reader, finish = await answered(engine, smol_model, {"tool_choice": choice}, temperature=temperature, seed=1)

    assert finish == "stop"
    assert reader.marks == ["grammar"]
    assert reader.message["content"] is None
    (call,) = reader.message["tool_calls"]
    function = next(tool["function"] for tool in TOOLS if tool["function"]["name"] == call["function"]["name"])
    assert choice in ("required", f"={function['name']}")
    assert set(json.loads(call["function"]["arguments"])) == set(function["parameters"]["required"])


async def test_a_reply_to_tools_that_may_be_called_is_whole(engine: Engine, smol_model: Path) -> None:
    """Whether it calls one is its own affair; what it says is words or a call, and not half of each."""
    reader, _ = await answered(engine, smol_model, {})
    message = reader.message
    assert message.get("tool_calls") or message["content"]
    for call in message.get("tool_calls", ()):
        json.loads(call["function"]["arguments"])


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        (
            {
                "$id": "https://example.org/s",
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"enum": [1]}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {"a": 1},
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"const": {"$ref": "#/x"}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {"a": {"$ref": "#/x"}},  # data, and no reference
        ),
    ],
)
async def test_a_call_is_what_its_schema_says_where_that_has_ids_and_references(
    engine: Engine, smol_model: Path, parameters: dict[str, object], wanted: object
) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": parameters}}]
    reader, finish = await answered(engine, smol_model, {"tool_choice": "required"}, tools=tools)
    (call,) = reader.message["tool_calls"]
    assert finish == "stop"
    assert json.loads(call["function"]["arguments"]) == wanted


async def test_a_reply_to_a_schema_of_anything_is_json(engine: Engine, smol_model: Path) -> None:
    reader, finish = await answered(engine, smol_model, {"schema": {}}, tools=[])
    assert reader.message["content"][0] in '{["-0123456789tfn'
    if finish == "stop":
        json.loads(reader.message["content"])
