"""The engine client against answers a server might give."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from aiohttp import web

from gpu_workers import engines
from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.engine.openai_chat import OpenAIChat
from gpu_workers.errors import AdapterMissing, EngineGarbled, EngineRefused, EngineUnavailable, KeyRefused, NoRoom
from gpu_workers.types import Sampling
from installation.findings import free_port


class Scripted(EngineClient):
    """The client, with a function where the network would be. Events arrive one by one, or all `at_once`."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response], *, at_once: bool = False) -> None:
        super().__init__("http://engine", api_key="plain", admin_key="admin")
        self.answer, self.at_once = answer, at_once

    async def _asked(self, method, path, headers, body=None):
        response = self.answer(httpx.Request(method, self.url + path, headers=headers, content=body))
        return response.status_code, response.content

    @asynccontextmanager
    async def _streamed(self, path, headers, body):
        status, content = await self._asked("POST", path, headers, body)

        async def arrivals():
            for part in [content] if self.at_once else content.splitlines(keepends=True):
                yield part

        yield status, arrivals()


def meta(total: int, finish: str | None = None, logprobs: list[list[Any]] | None = None) -> dict[str, Any]:
    return {
        "finish_reason": {"type": finish} if finish else None,
        "prompt_tokens": 2,
        "completion_tokens": total,
        "weight_version": "v1",
        "output_token_logprobs": logprobs or [],
    }


def events(*chunks: dict[str, Any]) -> httpx.Response:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return httpx.Response(200, text="".join(lines) + "data: [DONE]\n\n")


def entries(*ids: int) -> list[list[Any]]:
    return [[-float(i), i, None] for i in ids]


CUMULATIVE = [
    {"text": "a", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
    {"text": "ab", "output_ids": [1, 2], "meta_info": meta(2, None, entries(1, 2))},
    {"text": "abc", "output_ids": [1, 2, 3], "meta_info": meta(3, "stop", entries(1, 2, 3))},
]
INCREMENTAL = [
    {"text": "a", "output_ids": [1], "meta_info": meta(1, None, entries(1))},
    {"text": "b", "output_ids": [2], "meta_info": meta(2, None, entries(2))},
    {"text": "c", "output_ids": [3], "meta_info": meta(3, "stop", entries(3))},
]


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


async def test_a_stream_that_breaks_off_is_the_engines_failure() -> None:
    engine = Scripted(lambda request: events(*CUMULATIVE[:1]))

    with pytest.raises(EngineUnavailable, match="before it was finished"):
        _ = [piece async for piece in engine.stream((8,), Sampling())]


async def test_tokens_that_do_not_add_up_raise() -> None:
    chunk = {"text": "x", "output_ids": [3], "meta_info": meta(5, None, entries(3))}
    engine = Scripted(lambda request: events(chunk))

    with pytest.raises(EngineGarbled, match="are not 5"):
        _ = [piece async for piece in engine.stream((8,), Sampling())]


async def test_logprobs_that_do_not_match_the_tokens_raise() -> None:
    answer = {"text": "x", "output_ids": [3, 4], "meta_info": meta(2, "stop", entries(3))}
    engine = Scripted(lambda request: httpx.Response(200, json=answer))

    with pytest.raises(EngineGarbled, match="1 log-probs for 2 tokens"):
        await engine.generate((8,), Sampling())


async def test_scores_of_other_tokens_raise() -> None:
    answer = {"text": "", "output_ids": [], "meta_info": meta(0, "length") | {"input_token_logprobs": entries(8, 5)}}
    engine = Scripted(lambda request: httpx.Response(200, json=answer))

    with pytest.raises(EngineGarbled, match="other tokens"):
        await engine.score((8,), (6,))
    with pytest.raises(ValueError, match="needs a prompt"):
        await engine.score((), (6,))


LAST = 511


@pytest.mark.parametrize(
    ("said_again", "by_name", "words"),
    [
        ([[-9.0, 7, None], [-8.0, 0, None]], [[[-4.0, LAST, None]], [[-8.0, LAST, None]]], None),
        ([[-9.0, 7, None], [-8.0, 0, None]], [[[-4.0, LAST, None]], [[-7.9, LAST, None]]], "other tokens"),  # another's
        ([[-9.0, 7, None], [-8.0, 0, None]], [[[-4.0, LAST, None]], [[-8.0, 0, None]]], "other tokens"),  # it is 0
        ([[-9.0, 7, None], [-8.0, 0, None]], [], "other tokens"),  # it says nothing by name
        ([[-9.0, 6, None], [-8.0, 0, None]], [[[-4.0, LAST, None]], [[-8.0, LAST, None]]], "other tokens"),
    ],
)
async def test_a_token_that_is_called_0_is_asked_for_by_its_name(said_again, by_name, words) -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        is_again = "token_ids_logprob" in asked[-1]
        read = said_again if is_again else [[-9.0, 7, None], [-8.0, 0, None]]
        info = meta(0, "length") | {"input_token_logprobs": [[None, 8, None], *read]}
        if is_again:
            info["input_token_ids_logprobs"] = [None, *by_name]
        return httpx.Response(200, json={"text": "", "output_ids": [], "meta_info": info})

    engine = Scripted(answer)
    if words:
        with pytest.raises(EngineGarbled, match=words):
            await engine.score((8,), (7, LAST))
    else:
        assert (await engine.score((8,), (7, LAST))).logprobs == (-9.0, -8.0)

    assert len(asked) == 2  # once more, and never again
    assert asked[1]["token_ids_logprob"] == [LAST]
    assert asked[0]["rid"] != asked[1]["rid"]


async def test_a_score_that_names_every_token_is_asked_for_once() -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.content)
        info = meta(0, "length") | {"input_token_logprobs": [[None, 8, None], *entries(7, 0)]}
        return httpx.Response(200, json={"text": "", "output_ids": [], "meta_info": info})

    assert (await Scripted(answer).score((8,), (7, 0))).logprobs == (-7.0, 0.0)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("status", "content", "failure", "words"),
    [
        (400, {"error": {"message": "too long"}}, EngineRefused, "too long"),
        (400, {"error": "unknown field `x`"}, EngineRefused, "unknown field"),
        (400, {"object": "error", "message": "not so", "code": 400}, EngineRefused, "not so"),
        (400, {"success": False, "error_message": "no file"}, EngineRefused, "no file"),
        (400, {"error": {"message": "Got LoRA adapter that has never been loaded: x"}}, AdapterMissing, "never been"),
        (400, {"error": {"message": "The following requested LoRA adapters are not loaded: x"}}, AdapterMissing, "x"),
        (401, {"error": "Unauthorized"}, KeyRefused, "ENGINE_API_KEY"),
        (403, {"error": "Forbidden"}, KeyRefused, "ENGINE_API_KEY"),
        (400, {"error": {"message": "16 adapters are loaded, and no more fit: x"}}, NoRoom, "no more fit"),
        (429, {"error": {"message": "queue full"}}, EngineUnavailable, "queue full"),
        (500, {"error": {"message": "boom"}}, EngineUnavailable, "boom"),
    ],
)
async def test_each_error_shape_becomes_a_named_failure(
    status: int, content: dict[str, Any], failure: type[Exception], words: str
) -> None:
    engine = Scripted(lambda request: httpx.Response(status, json=content))

    for ask in (engine.generate((1,), Sampling()), anext(engine.stream((1,), Sampling()))):
        with pytest.raises(failure, match=words) as raised:
            await ask
        assert type(raised.value) is failure


async def test_an_error_inside_a_stream_and_an_abort_with_a_status_raise() -> None:
    failing = Scripted(lambda request: events({"error": {"message": "gone", "code": 503}}))
    with pytest.raises(EngineUnavailable, match="gone"):
        await anext(failing.stream((1,), Sampling()))

    info = meta(0) | {"finish_reason": {"type": "abort", "message": "overloaded", "status_code": 503}}
    aborted = Scripted(lambda request: httpx.Response(200, json={"text": "", "output_ids": [], "meta_info": info}))
    with pytest.raises(EngineUnavailable, match="overloaded"):
        await aborted.generate((1,), Sampling())


async def test_nobody_there_is_said_with_the_address_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    engine = EngineClient("http://127.0.0.1:9")  # the discard port: no process listens

    with pytest.raises(EngineUnavailable) as failure:
        await engine.generate((1,), Sampling())
    assert str(failure.value) == "The engine does not answer."
    assert "http://127.0.0.1:9" in caplog.text
    with pytest.raises(EngineUnavailable):
        await anext(engine.stream((1,), Sampling()))
    assert not await engine.ready()


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


async def test_likely_tokens_that_do_not_match_the_tokens_raise() -> None:
    content = {
        "text": "a",
        "output_ids": [1],
        "meta_info": meta(1, "stop", [[-0.5, 1, None]]) | {"output_top_logprobs": [[], []]},
    }
    engine = Scripted(lambda request: httpx.Response(200, json=content))
    with pytest.raises(EngineGarbled, match="likely tokens"):
        await engine.generate((1, 2), Sampling(top_logprobs=2))


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


@pytest.mark.parametrize(
    ("response", "failure"),
    [
        (httpx.Response(503, text="busy"), EngineUnavailable),
        (httpx.Response(429, text="slow down"), EngineUnavailable),
        (httpx.Response(404, text="no such model"), EngineRefused),
        (httpx.Response(200, text="<html>"), EngineRefused),
        (httpx.Response(200, json={"choices": []}), EngineRefused),
    ],
)
async def test_a_chat_server_that_fails_is_named(response: httpx.Response, failure: type[Exception]) -> None:
    with pytest.raises(failure):
        await _scripted_chat(lambda request: response).chat([], Sampling())


def _scripted_chat(answer: Callable[[httpx.Request], httpx.Response]) -> OpenAIChat:
    class Chat(OpenAIChat):
        def _client(self) -> httpx.AsyncClient:
            return httpx.AsyncClient(transport=httpx.MockTransport(answer))

    return Chat("http://judge", model="big", api_key="key")


async def test_a_character_that_no_database_keeps_is_replaced_in_the_text_and_not_in_the_tokens():
    whole = {"text": "a\0b", "output_ids": [1, 2, 3], "meta_info": meta(3, "stop", entries(1, 2, 3))}
    reply = await Scripted(lambda request: httpx.Response(200, json=whole)).generate([7, 8], Sampling())
    streamed = [piece async for piece in Scripted(lambda request: events(whole)).stream([7, 8], Sampling())]

    assert reply.text == "".join(piece.text for piece in streamed) == "a\ufffdb"
    assert reply.ids == (1, 2, 3)


# What is no engine

PAGE = "<!doctype html><title>Welcome to nginx</title>"


def ask_all(engine: Engine) -> dict[str, Any]:
    """Every question that has an answer, by its name."""

    async def streamed() -> None:
        _ = [piece async for piece in engine.stream((8,), Sampling())]

    return {
        "generate": lambda: engine.generate((8,), Sampling()),
        "stream": streamed,
        "score": lambda: engine.score((8,), (6,)),
        "score_choices": lambda: engine.score_choices((8,), (6, 7)),
        "adapters": engine.adapters,
        "info": engine.info,
        "server_info": engine.server_info,
        "load_adapter": lambda: engine.load_adapter("a", "/a"),
    }


@pytest.mark.parametrize("question", ask_all(EngineClient("")))
@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text=PAGE),
        httpx.Response(404, text=PAGE),
        httpx.Response(405, text=PAGE),
        httpx.Response(200, json={"hello": "world", "data": 7}),
        httpx.Response(200, json=[1, 2]),
        httpx.Response(200, text="data: [1, 2]\n\ndata: [DONE]\n\n"),
        httpx.Response(200, text='data: {"text": "x"}\n\ndata: [DONE]\n\n'),
        httpx.Response(200, text="data: {torn\n\ndata: [DONE]\n\n"),
    ],
    ids=["page", "page 404", "page 405", "other JSON", "a list", "event list", "event without meta", "torn event"],
)
async def test_what_no_engine_says_is_no_fault_of_the_request(question: str, answer: httpx.Response) -> None:
    engine = Scripted(lambda request: answer)
    engine._weights = ""
    if question == "info" and answer.text.startswith('{"hello'):
        return  # any object will do there
    if question == "server_info" and answer.text.startswith('{"hello'):
        return

    with pytest.raises(EngineUnavailable) as failure:
        await ask_all(engine)[question]()

    assert failure.value.status in (502, 503)
    assert failure.value.retryable


@pytest.mark.parametrize("status", [200, 404])
async def test_a_page_is_named(status: int) -> None:
    with pytest.raises(EngineGarbled, match=r"is no engine: it sent a page\. ENGINE_URL must name one"):
        await Scripted(lambda request: httpx.Response(status, text=PAGE)).adapters()


async def test_a_stream_that_ends_in_numbers_that_do_not_add_up_has_not_ended() -> None:
    broken = {"text": "b", "output_ids": [2], "meta_info": meta(2, "stop", [])}
    engine = Scripted(lambda request: events(INCREMENTAL[0], broken), at_once=True)
    pieces = engine.stream((8,), Sampling())

    piece = await anext(pieces)
    assert (piece.text, piece.finish_reason) == ("a", None)
    with pytest.raises(EngineGarbled, match="0 log-probs for 1 tokens"):
        await anext(pieces)


async def test_a_web_site_is_not_ready_to_answer() -> None:
    async def site(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port := free_port()).start()
    engine = EngineClient(f"http://127.0.0.1:{port}")
    try:
        assert not await engine.ready()
        with pytest.raises(EngineGarbled, match="it sent a page"):
            _ = [piece async for piece in engine.stream((8,), Sampling())]
    finally:
        await engine.aclose()
        await runner.cleanup()
