"""Replies that the OpenAI-compatible door sends word by word: how they begin, break off and end."""

from __future__ import annotations

import asyncio
import json

import pytest

from chat.models import Session, Turn
from chat.rendering.model_output import LONG
from gpu_workers.errors import EngineRefused, EngineUnavailable
from tests.chat.api.completions import PROTOCOLS

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


async def chunks(answer) -> list:
    """The data of a stream's events, [DONE] as text."""
    events = "".join([part.decode() async for part in answer]).split("\n\n")
    assert events.pop() == ""
    return [event if (event := one.removeprefix("data: ")) == "[DONE]" else json.loads(event) for one in events]


async def test_a_stream_is_chunks_as_openai_sends_them(ask, engine):
    engine.says("Hello, captain.")
    answer = await ask({"stream": True, "stream_options": {"include_usage": True}})
    assert answer.headers["Content-Type"].startswith("text/event-stream")

    first, *middle, finish, usage, done = await chunks(answer)

    turn = await Turn.objects.aget()
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in middle) == "Hello, captain."
    assert len(middle) > 1
    assert finish["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(turn.response_ids)
    assert done == "[DONE]"
    assert {chunk["id"] for chunk in (first, *middle, finish, usage)} == {turn.completion_id}
    assert {chunk["model"] for chunk in (first, *middle, finish, usage)} == {"talkback@0"}


async def test_usage_is_sent_only_when_it_is_asked_for(ask):
    *events, done = await chunks(await ask({"stream": True}))
    assert done == "[DONE]"
    assert all(event["choices"] for event in events)
    assert not any("usage" in event for event in events)


async def test_a_stream_is_kept_alive_while_the_engine_is_away(ask, engine, monkeypatch):
    from chat.replying import replies

    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    engine.goes_down()
    answer = await ask({"stream": True})
    parts = aiter(answer)
    await anext(parts)  # the role
    alive = json.loads((await anext(parts)).decode().removeprefix("data: "))
    assert alive["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
    engine.comes_back()
    assert [part async for part in parts][-1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize(
    ("failure", "status"), [(EngineRefused("The schema cannot be held to."), 400), (EngineUnavailable("Away."), 503)]
)
async def test_what_keeps_a_stream_from_being_begun_is_its_status(ask, engine, path, failure, status):
    engine.goes_down(failure)
    answer = await ask(PROTOCOLS[path] | {"stream": True}, path)
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, str(failure))
    turn = await Turn.objects.aget()
    assert (turn.status, turn.finish_reason, turn.error) == (Turn.Status.CLOSED, "error", str(failure))


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_a_stream_begins_with_its_first_word_or_its_first_beat(ask, engine, path):
    engine.says("Hello, captain.", times=2)
    engine.hold()  # nothing comes: the beat it is
    waiting = await ask(PROTOCOLS[path] | {"stream": True}, path)
    assert waiting.streaming
    engine.release()
    assert b"captain" in b"".join([part async for part in waiting])
    answer = await ask(PROTOCOLS[path] | {"stream": True}, path)
    assert b"captain" in b"".join([part async for part in answer])


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_a_reader_that_leaves_before_a_stream_has_begun_stops_the_engine(ask, engine, path, monkeypatch):
    from chat.replying import replies

    monkeypatch.setattr(replies, "BEAT_S", 60)
    engine.says("Hello, captain.")
    engine.hold()
    asking = asyncio.ensure_future(ask(PROTOCOLS[path] | {"stream": True}, path))
    assert await asyncio.to_thread(engine.holding.wait, 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    turn = await Turn.objects.aget()
    assert engine.aborted == [turn.completion_id]
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_a_reader_that_is_gone_before_the_status_is_sent_stops_the_engine(key, engine, path):
    from webapp.asgi import application

    engine.says("Hello, captain.")
    engine.hold(after=1)
    body = json.dumps(PROTOCOLS[path] | {"stream": True}).encode()
    headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {key.secret}".encode())]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    arriving = [{"type": "http.request", "body": body}]

    async def receive():
        return arriving.pop() if arriving else await asyncio.Future()

    async def send(message):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await application(scope, receive, send)
    turn = await Turn.objects.aget()
    assert engine.aborted == [turn.completion_id]
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


LONG_CALL = '<tool_call>{"name": "weather", "arguments": {"city": "' + "x" * 2 * LONG


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_long_call_that_breaks_is_text_wherever_it_still_can_be(ask, engine, path, streaming):
    tool = {"messages": {"name": "weather", "input_schema": {}}, "responses": {"type": "function", "name": "weather"}}
    most = {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 1500}
    body = PROTOCOLS[path] | most | {"tools": [tool.get(path.rpartition("/")[2], TOOL)], "stream": streaming}
    engine.says(LONG_CALL)
    answer = await ask(body, path)
    sent = b"".join([part async for part in answer]).decode() if streaming else answer.content.decode()

    turn = await Turn.objects.aget()
    assert turn.message == {"role": "assistant", "content": LONG_CALL}
    assert (turn.text, turn.finish_reason, turn.marks) == (LONG_CALL, "stop", ["call_unparsed"])
    is_given_out = streaming and path != "/v1/messages"
    assert ("call_" in sent.replace("tool_call>", "")) == is_given_out
    assert ("<tool_call>" in sent) != is_given_out
    assert "tool_use" not in sent
    assert '"finish_reason":"tool_calls"' not in sent.replace(" ", "")


SEPARATED = "one\u2028two\u2029three\x85four"


@pytest.mark.parametrize("path", PROTOCOLS)
@pytest.mark.parametrize("said", ["text", "call", "reasoning", "error"])
async def test_no_reader_sees_the_end_of_a_line_within_an_event(ask, engine, path, said):
    """U+2028, U+2029 and U+0085 end lines for Python's and httpx's readers, and stand raw in JSON as it is written."""
    tool = {"messages": {"name": "look", "input_schema": {}}, "responses": {"type": "function", "name": "look"}}
    call = {"type": "function", "function": {"name": "look"}}
    most = {"max_output_tokens" if path == "/v1/responses" else "max_tokens": 400}
    body = PROTOCOLS[path] | most | {"tools": [tool.get(path.rpartition("/")[2], call)], "stream": True}
    arguments = json.dumps({"a": SEPARATED}, ensure_ascii=False)
    sayings = {
        "text": SEPARATED,
        "call": f'<tool_call>{{"name": "look", "arguments": {arguments}}}</tool_call>',
        "reasoning": f"<think>{SEPARATED}</think>Hello.",
        "error": "Hello.",
    }
    engine.says(sayings[said])
    if said == "error":
        engine.hold()
        answer = await ask(body, path)
        engine.goes_down(EngineUnavailable(SEPARATED))
        engine.release()
    else:
        answer = await ask(body, path)
    sent = b"".join([part async for part in answer]).decode()

    assert sent.splitlines() == sent.removesuffix("\n").split("\n")
    assert "\\u2028" in sent
    assert "\\u2029" in sent
    assert "\\u0085" in sent


async def test_a_failure_in_mid_stream_is_an_event_in_openais_shape(ask, engine):
    engine.hold()  # the stream begins with its first beat
    answer = await ask({"stream": True})
    engine.goes_down()
    engine.release()
    *_, error, done = await chunks(answer)
    assert error["error"]["code"] == "engine_unavailable"
    assert error["error"]["type"] == "server_error"
    assert done == "[DONE]"


async def test_a_reader_that_leaves_stops_the_engine(ask, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    answer = await ask({"stream": True})
    parts = aiter(answer)
    for _ in range(3):
        await anext(parts)
    await parts.aclose()
    turn = await Turn.objects.aget()
    assert engine.aborted == [turn.completion_id]
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


async def test_a_stream_ends_its_session_too(ask):
    answer = await ask({"stream": True, "session_id": "s1", "session_done": True})
    await chunks(answer)
    assert (await Session.objects.aget()).closed_at is not None
