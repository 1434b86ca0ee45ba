"""The engine client against answers a server might give."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.errors import EngineRefused, EngineUnavailable
from gpu_workers.types import Sampling
from tests.gpu_workers.engine.scripted_answers import (
    CUMULATIVE,
    INCREMENTAL,
    Scripted,
    _scripted_chat,
    entries,
    events,
    meta,
)


@pytest.mark.parametrize("chunks", [CUMULATIVE, INCREMENTAL], ids=["cumulative", "incremental"])
async def test_both_ways_of_streaming_give_the_same_pieces(chunks: list[dict[str, Any]]) -> None:
    engine = Scripted(lambda request: events(*chunks))

    pieces = [piece async for piece in engine.stream((8, 9), Sampling())]

    assert [(p.text, p.ids, p.logprobs, p.finish_reason) for p in pieces] == [
        ("a", (1,), (-1.0,), None),
        ("b", (2,), (-2.0,), None),
        ("c", (3,), (-3.0,), "stop"),
    ]


@pytest.mark.parametrize("chunks", [CUMULATIVE, INCREMENTAL], ids=["cumulative", "incremental"])
async def test_what_arrives_at_once_is_one_piece(chunks: list[dict[str, Any]]) -> None:
    engine = Scripted(lambda request: events(*chunks), at_once=True)

    [piece] = [piece async for piece in engine.stream((8, 9), Sampling())]

    assert (piece.text, piece.ids, piece.logprobs, piece.finish_reason) == (
        "abc",
        (1, 2, 3),
        (-1.0, -2.0, -3.0),
        "stop",
    )


async def test_an_event_that_comes_in_two_parts_is_read_whole() -> None:
    content = events(*INCREMENTAL).content

    class Halved(Scripted):
        @asynccontextmanager
        async def _streamed(self, path, headers, body):
            async def arrivals():
                for start in range(0, len(content), 7):
                    yield content[start : start + 7]

            yield 200, arrivals()

    engine = Halved(lambda request: httpx.Response(200))
    assert "".join([piece.text async for piece in engine.stream((8,), Sampling())]) == "abc"


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("broken", ["an error", "an abort", "no JSON"])
async def test_what_came_before_a_failure_is_said_first(broken: str, at_once: bool) -> None:
    gone = meta(2) | {"finish_reason": {"type": "abort", "message": "gone", "status_code": 503}}
    last = {"text": "", "output_ids": [], "meta_info": gone} if broken == "an abort" else {"error": {"message": "gone"}}
    content = events(INCREMENTAL[0], last).content
    if broken == "no JSON":
        content = content.replace(b'"message"', b"message")
    pieces = Scripted(lambda request: httpx.Response(200, content=content), at_once=at_once).stream((8,), Sampling())

    piece = await anext(pieces)
    with pytest.raises((EngineRefused, EngineUnavailable), match="gone"):
        await anext(pieces)
    assert (piece.text, piece.ids) == ("a", (1,))


async def test_what_may_become_a_stop_string_is_held_back() -> None:
    chunks = [
        {"text": "go E", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
        {"text": "go EN", "output_ids": [1, 2], "meta_info": meta(2, None, entries(1, 2))},
        {"text": "go ", "output_ids": [1, 2, 3], "meta_info": meta(3, "stop", entries(1, 2, 3))},
    ]
    engine = Scripted(lambda request: events(*chunks))

    pieces = [piece async for piece in engine.stream((8,), Sampling(stop=("END",)))]

    assert [piece.text for piece in pieces] == ["go ", "", ""]


async def test_what_was_held_back_comes_when_it_was_no_stop_string() -> None:
    chunks = [
        {"text": "go E", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
        {"text": "go E", "output_ids": [1, 2], "meta_info": meta(2, "length", entries(1, 2))},
    ]
    engine = Scripted(lambda request: events(*chunks))

    assert "".join([p.text async for p in engine.stream((8,), Sampling(stop=("END",)))]) == "go E"


async def test_each_key_goes_to_its_own_routes() -> None:
    keys: dict[str, str] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        keys[request.url.path] = request.headers.get("authorization", "")
        return httpx.Response(200, json={"data": []})

    engine = Scripted(answer)
    await engine.adapters()
    await engine.pause("retract")

    assert keys == {"/v1/models": "Bearer plain", "/pause_generation": "Bearer admin"}


async def test_only_what_is_asked_is_sent() -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"text": "", "output_ids": [], "meta_info": meta(0, "length")})

    engine = Scripted(answer)
    await engine.generate((1, 2), Sampling())
    asked = {"stop": ("x",), "stop_token_ids": (3,), "json_schema": "{}", "regex": "a", "skip_special_tokens": False}
    await engine.generate((1, 2), Sampling(**asked, seed=4, top_logprobs=5), adapter="m-1", request_id="r", priority=10)

    plain, full = bodies
    assert not {"lora_path", "priority", "top_logprobs_num"} & plain.keys()
    assert not {*asked, "sampling_seed"} & plain["sampling_params"].keys()
    assert (full["lora_path"], full["priority"], full["rid"], full["top_logprobs_num"]) == ("m-1", 10, "r", 5)
    sent = asked | {"stop": ["x"], "stop_token_ids": [3], "sampling_seed": 4}
    assert full["sampling_params"].items() >= sent.items()


async def test_where_priorities_are_off_none_is_sent(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ENGINE_URL, settings.ENGINE_URLS = "http://of-equals", []
    sent: list[dict[str, Any]] = []

    async def asked(self: EngineClient, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        sent.append(json.loads(body))
        return 200, json.dumps({"text": "", "output_ids": [], "meta_info": meta(0, "length")}).encode()

    monkeypatch.setattr(EngineClient, "_asked", asked)
    for settings.ENGINE_PRIORITIES in (True, False):
        await engines.policy().generate((1, 2), Sampling(), priority=10)
    assert [body.get("priority") for body in sent] == [10, None]


async def test_a_token_that_could_not_come_is_not_among_the_likely_ones() -> None:
    rows = [[[-0.5, 1, None], [None, 7, None]]]
    content = {
        "text": "a",
        "output_ids": [1],
        "meta_info": meta(1, "stop", [[-0.5, 1, None]]) | {"output_top_logprobs": rows},
    }
    engine = Scripted(lambda request: httpx.Response(200, json=content))
    assert (await engine.generate((1, 2), Sampling(top_logprobs=2))).top == (((1, -0.5),),)


async def test_a_chat_server_answers_with_text() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        choice = {"message": {"role": "assistant", "content": "\\boxed{1}"}, "finish_reason": "stop"}
        return httpx.Response(200, json={"choices": [choice], "usage": {"completion_tokens": 5}})

    chat = _scripted_chat(answer)
    reply = await chat.chat([{"role": "user", "content": "hi"}], Sampling(max_new_tokens=9, temperature=0.6), seed=3)

    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("\\boxed{1}", "stop", 5)
    assert str(seen[0].url) == "http://judge/v1/chat/completions"
    assert json.loads(seen[0].content).items() >= {"model": "big", "max_tokens": 9, "seed": 3}.items()
    assert seen[0].headers["authorization"] == "Bearer key"


async def test_a_character_that_no_database_keeps_is_replaced_in_the_text_and_not_in_the_tokens():
    whole = {"text": "a\0b", "output_ids": [1, 2, 3], "meta_info": meta(3, "stop", entries(1, 2, 3))}
    reply = await Scripted(lambda request: httpx.Response(200, json=whole)).generate([7, 8], Sampling())
    streamed = [piece async for piece in Scripted(lambda request: events(whole)).stream([7, 8], Sampling())]

    assert reply.text == "".join(piece.text for piece in streamed) == "a\ufffdb"
    assert reply.ids == (1, 2, 3)
