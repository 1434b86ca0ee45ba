"""What an engine answers that is none, or is at odds with itself, becomes a failure with a name."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from aiohttp import web

from gpu_workers.engine.engine_client import EngineClient
from gpu_workers.engine.interface import Engine
from gpu_workers.errors import AdapterMissing, EngineGarbled, EngineRefused, EngineUnavailable, KeyRefused, NoRoom
from gpu_workers.types import Sampling
from installation.diagnosis import free_port
from tests.gpu_workers.engine.scripted_answers import (
    CUMULATIVE,
    INCREMENTAL,
    Scripted,
    _scripted_chat,
    entries,
    events,
    meta,
)


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


async def test_likely_tokens_that_do_not_match_the_tokens_raise() -> None:
    content = {
        "text": "a",
        "output_ids": [1],
        "meta_info": meta(1, "stop", [[-0.5, 1, None]]) | {"output_top_logprobs": [[], []]},
    }
    engine = Scripted(lambda request: httpx.Response(200, json=content))
    with pytest.raises(EngineGarbled, match="likely tokens"):
        await engine.generate((1, 2), Sampling(top_logprobs=2))


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
