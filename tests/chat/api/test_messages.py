"""Anthropic's Messages: what goes in as chat messages, what comes out as blocks and events, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from pydantic import ValidationError

from chat.api import anthropic_events, messages
from chat.api.anthropic_events import PING, MessageEvents, answer
from chat.api.messages import AnthropicRequest, conversation
from chat.api.sent import NotOffered
from chat.deltas import ReplyDelta
from chat.models import Session, Turn
from chat.rendering.model_output import Piece
from chat.rendering.renderer import Renderer
from chat.turns import ContextTooLong
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from tests.chat.conftest import until

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

USE: Any = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
CALL = {"id": "toolu_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}


def read(*messages: Any, **more: Any) -> list[dict[str, Any]]:
    return AnthropicRequest.model_validate({"max_tokens": 9, "messages": list(messages)} | more).plain()


def test_system_and_text_come_as_words_or_as_blocks():
    blocks = [
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Now."},
    ]
    assert read({"role": "user", "content": "Hi"}, system=blocks) == [
        {"role": "system", "content": "Be brief.\nNow."},
        {"role": "user", "content": "Hi"},
    ]
    assert read({"role": "user", "content": blocks}) == [{"role": "user", "content": "Be brief.\nNow."}]


def test_an_assistants_blocks_are_one_message():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "x"}
    said = {"role": "assistant", "content": [thinking, hidden, {"type": "text", "text": "Let me look. "}, USE]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sun"}]}
    assert read({"role": "user", "content": "Hi"}, said, result)[1:] == [
        {"role": "assistant", "content": "Let me look. ", "reasoning_content": "Hm.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "sun"},
    ]


def test_all_parallel_results_are_taken_and_an_error_can_be_read():
    results = [
        {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
        },
        {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": "no such file"},
        {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "Error: denied"},
        {"type": "tool_result", "tool_use_id": "d"},
        {"type": "text", "text": "Go on."},
        {"type": "text", "text": "Quickly."},
    ]
    assert [(said["role"], said["content"]) for said in read({"role": "user", "content": results})] == [
        ("tool", "x\ny"),
        ("tool", "Error: no such file"),
        ("tool", "Error: denied"),
        ("tool", ""),
        ("user", "Go on.\nQuickly."),
    ]


@pytest.mark.parametrize("kind", ["image", "document", "search_result", "server_tool_use"])
def test_what_is_no_text_is_refused_by_name(kind):
    block = {"type": kind, "source": {"type": "base64", "data": ""}}
    with pytest.raises(NotOffered, match=kind):
        read({"role": "user", "content": [block]})
    with pytest.raises(NotOffered, match=kind):
        read({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [block]}]})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"messages": []}, "messages"),
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": [{"role": "user"}]}, "needs content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "needs text"),
        ({"tool_choice": {"type": "tool"}}, "needs a name"),
        ({"tool_choice": {"type": "tool", "name": "fly"}}, "none of the tools"),
        ({"tool_choice": {"type": "any"}}, "no tools are given"),
        ({"stop_sequences": [""]}, "1 to 200 characters"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "schema"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(body, said):
    whole = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]} | body
    with pytest.raises(ValidationError, match=said):
        AnthropicRequest.model_validate(whole)


def turn_of(**fields: Any) -> Turn:
    given: dict[str, Any] = {
        "completion_id": "msg_1",
        "prompt_ids": [1, 2, 3],
        "checkpoint": Checkpoint(number=0),
    }
    return Turn(**given | fields)


def events(turn: Turn, *spoken: ReplyDelta) -> list[dict[str, Any]]:
    encoder = MessageEvents(turn)
    return told([encoder.start(), *(encoder.piece(0, one) for one in spoken), encoder.end()])


def told(sent: Iterable[bytes]) -> list[dict[str, Any]]:
    """The events, each of them under the name of its type."""
    found = []
    for frame in b"".join(sent).decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


REPLY = (
    ReplyDelta((Piece("reasoning", "Hm"),), (4,)),
    ReplyDelta((Piece("reasoning", "."), Piece("content", "Let me")), (5,)),
    ReplyDelta((Piece("content", " look."),), (6,)),
    ReplyDelta((Piece("call", index=0, id="call_1", name="weather"), Piece("arguments", '{"city": ', index=0)), (7,)),
    ReplyDelta((Piece("arguments", '"Paris"}', index=0),), (8,)),
    ReplyDelta((Piece("call", index=1, id="call_2", name="now"), Piece("arguments", "{}", index=1)), (9,)),
    ReplyDelta((), (10,), finish_reason="tool_calls", cached_tokens=2),
)
MESSAGE = {
    "role": "assistant",
    "content": "Let me look.",
    "reasoning_content": "Hm.",
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
    ],
}


def test_a_stream_adds_up_to_the_whole_answer():
    kept = turn_of(message=MESSAGE, response_ids=[4, 5, 6, 7, 8, 9, 10], cached_tokens=2, finish_reason="tool_calls")
    sent = events(kept, *REPLY)
    blocks: list[dict[str, Any]] = []
    for event in sent:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            field, added = next((name, value) for name, value in event["delta"].items() if name != "type")
            name = "input" if field == "partial_json" else field
            blocks[-1][name] = (blocks[-1][name] or "") + added
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"])
    whole = answer(kept)
    assert blocks == whole["content"]
    assert sent[-2]["delta"] == {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    assert sent[-2]["usage"] == whole["usage"]
    assert whole["usage"] == {
        "input_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 7,
    }
    starts = [event["index"] for event in sent if event["type"] == "content_block_start"]
    assert starts == [event["index"] for event in sent if event["type"] == "content_block_stop"] == [0, 1, 2, 3]


def test_waiting_is_a_ping_and_an_empty_reply_has_no_blocks():
    encoder = MessageEvents(turn_of())
    encoder.start()
    assert encoder.piece(0, ReplyDelta()) == PING
    assert [event["type"] for event in told([encoder.end()])] == ["message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("tool_calls", "tool_use"), ("abort", "end_turn")],
)
def test_reasons(finish, stop):
    assert answer(turn_of(text="Hi", finish_reason=finish))["stop_reason"] == stop


def test_the_stop_sequence_that_was_hit_is_named(engine):
    ids = engine.tokenizer.encode("One, two, END it", add_special_tokens=False).ids
    stops = ["STOP", "END", "ND i"]
    cut = answer(turn_of(text="One, two, ", response_ids=ids, finish_reason="stop"), stops)
    assert (cut["stop_reason"], cut["stop_sequence"]) == ("stop_sequence", "END")
    whole = answer(turn_of(text="One", response_ids=ids[:2], finish_reason="stop"), stops)
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("end_turn", None)


def test_errors_have_anthropics_types():
    def kind(status: int) -> str:
        error = TalkbackError("No.")
        error.status = status
        shaped = anthropic_events.shape(error)
        assert shaped["type"] == "error"
        return str(shaped["error"]["type"])

    assert [kind(status) for status in (400, 401, 403, 404, 409, 413, 429, 500, 503)] == [
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "conflict_error",
        "request_too_large",
        "rate_limit_error",
        "api_error",
        "overloaded_error",
    ]
    words = anthropic_events.shape(ContextTooLong(2048, 3000))["error"]["message"]
    assert words.startswith("prompt is too long: 3000 tokens > 2048 maximum")


@pytest.fixture
def ask(async_client, key):
    """Send a body to the Messages' door, with Ana's key."""

    async def send(body: Any, path: str = "/v1/messages", **headers: str) -> Any:
        content = body if isinstance(body, (str, bytes)) else json.dumps(body)
        return await async_client.post(path, content, "application/json", headers={"x-api-key": key.secret} | headers)

    return send


HI = {"model": "talkback", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("{", 400, "invalid_request_error"),
        ("[]", 400, "invalid_request_error"),
        ({}, 400, "invalid_request_error"),
        (HI | {"messages": [{"role": "pilot", "content": "Hi"}]}, 400, "invalid_request_error"),
        (HI | {"model": "claude"}, 404, "not_found_error"),
        (HI | {"tools": [{"name": "x", "type": "bash_20250124"}]}, 400, "invalid_request_error"),
        (HI | {"system": [{"type": "image"}]}, 400, "invalid_request_error"),
    ],
)
async def test_every_refusal_is_in_anthropics_shape(ask, engine, path, body, status, kind):
    response = await ask(body, path)
    refused = response.json()
    assert (response.status_code, refused["type"], refused["error"]["type"]) == (status, "error", kind)
    assert refused["error"]["message"]
    assert not await Turn.objects.aexists()


async def test_no_key_and_no_such_page_are_in_anthropics_shape_too(async_client, key):
    response = await async_client.post("/v1/messages", json.dumps(HI), "application/json")
    assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")
    missing = await async_client.get("/v1/messages/batches", headers={"x-api-key": key.secret})
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")


async def test_a_session_is_named_as_everywhere(ask, engine):
    await ask(HI, **{"X-Session-Id": "trip", "X-Session-Done": "true"})
    session = await Session.objects.aget()
    assert session.external_id == "trip"
    assert session.closed_at is not None


@pytest.mark.parametrize(
    "user_id", ['{"device_id": "d", "account_uuid": "", "session_id": "57a1"}', "user_1f_account__session_57a1"]
)
async def test_an_agents_session_is_found_in_its_user_id(ask, engine, user_id):
    await ask(HI | {"metadata": {"user_id": user_id}})
    await ask(HI | {"metadata": {"user_id": user_id}, "messages": [{"role": "user", "content": "Another subagent"}]})
    session = await Session.objects.aget()
    assert session.external_id.endswith("57a1")


@pytest.mark.parametrize(
    "user_id", ["user_" + "_account_" * 800_000, "_session_" * 800_000, "user_x_account_y_session_" * 300_000]
)
async def test_a_user_id_of_megabytes_is_refused(ask, engine, user_id):
    answer = await ask(HI | {"metadata": {"user_id": user_id}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert "metadata.user_id" in answer.json()["error"]["message"]
    assert engine.asked("stream") == []


@pytest.mark.parametrize(
    ("user_id", "named"),
    [
        ("user_1f_account_2e_session_57a1", "57a1"),
        ("user_1f_account_2e_session_3_session_57a1", "57a1"),
        *(
            (one, one)
            for one in ("user_1f_session_57a1", "x_account_2e_session_57a1", "user_1f_account_2e_session_", "")
        ),
    ],
)
def test_a_session_is_found_only_where_an_agent_put_it(user_id, named):
    assert conversation(user_id) == named


async def test_a_conversation_goes_on_in_another_protocol(ask, engine):
    engine.says("Hello, captain.")
    first = (await ask(HI)).json()
    history = [*HI["messages"], {"role": "assistant", "content": first["content"][0]["text"]}]
    body = {"model": "talkback", "messages": [*history, {"role": "user", "content": "Bye"}]}
    second = await ask(body, "/v1/chat/completions", Authorization="")
    assert second.status_code == 200
    one, two = [turn async for turn in Turn.objects.order_by("position").select_related("follows")]
    assert two.follows == one
    assert one.next_state == [{"role": "user", "content": "Bye"}]
    assert await Session.objects.acount() == 1


async def test_a_stream_waits_with_pings(ask, engine):
    engine.hold()
    response = await ask(HI | {"stream": True})
    assert response.headers["Content-Type"].startswith("text/event-stream")
    seen = []
    async for frame in response:
        seen.append(frame)
        if seen.count(PING) == 2:
            engine.release()
    assert told(seen)[-1]["type"] == "message_stop"
    await until(sync_to_async(Turn.objects.filter(status=Turn.Status.SERVED).exists), "the turn is served")


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_retry_of_a_whole_reply_is_the_same_message(ask, engine, streaming):
    engine.says("Hello, captain.")

    async def asked() -> Any:
        response = await ask(HI | {"stream": streaming}, **{"Idempotency-Key": "1"})
        if not streaming:
            return response.json()
        sent = told([frame async for frame in response])
        words = "".join(event["delta"]["text"] for event in sent if event["type"] == "content_block_delta")
        return sent[0]["message"]["id"], words, sent[-2]

    assert await asked() == await asked()
    assert await Turn.objects.acount() == 1
    assert len(engine.asked("stream")) == 1


async def test_a_schema_and_tools_are_not_asked_for_at_once(ask, engine):
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    body = HI | {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}
    assert "while it may call tools" in (await ask(body | {"tools": tools})).json()["error"]["message"]
    assert (await ask(body | {"tools": tools, "tool_choice": {"type": "none"}})).status_code == 200
    assert engine.asked("stream")[0].sampling.json_schema == '{"type": "object"}'


@pytest.mark.parametrize("choice", ["auto", "any", "none"])
async def test_what_is_counted_is_what_is_asked(ask, engine, choice):
    body = HI | {
        "tools": [{"name": "weather", "description": "d", "input_schema": {}}],
        "tool_choice": {"type": choice},
    }
    count = (await ask(body, "/v1/messages/count_tokens")).json()["input_tokens"]
    assert (await ask(body)).json()["usage"]["input_tokens"] == count


async def test_what_is_many_times_too_long_is_not_counted_to_its_end(ask, engine):
    window = Renderer.for_model(settings.MODEL).context_length
    for times, status in ((2, 200), (2 * messages.COUNTED, 400)):  # a token a word, and a few more
        body = HI | {"messages": [{"role": "user", "content": "the " * (times * window)}]}
        answer = await ask(body, "/v1/messages/count_tokens")
        assert answer.status_code == status, answer.json()
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")
    assert f" tokens > {window} maximum" in answer.json()["error"]["message"]
