"""The OpenAI-compatible door, as a client sees it."""

from __future__ import annotations

import threading

import pytest
from asgiref.sync import sync_to_async

from chat.api_keys import ApiKey
from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from gpu_workers.errors import EngineRefused
from tests.chat.api.completions import HELLO, PATH, PROTOCOLS
from tests.chat.conftest import assistant, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


PART = "messages.0.content.1.type"


FORCED = {"type": "function", "function": {"name": "other"}}


async def test_a_plain_completion(ask, engine):
    engine.says("Hello, captain.")
    answer = (await ask({})).json()
    turn = await Turn.objects.aget()
    assert answer["id"] == turn.completion_id
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "talkback@0"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hello, captain.", "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "stop"
    tokens = len(turn.prompt_ids), len(turn.response_ids)
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == tokens
    assert answer["usage"]["total_tokens"] == sum(tokens)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"max_tokens": 5}, {"max_new_tokens": 5}),
        ({"max_completion_tokens": 6, "max_tokens": 5}, {"max_new_tokens": 6}),
        ({"temperature": 0, "top_p": 0.5, "seed": 7}, {"temperature": 0, "top_p": 0.5, "seed": 7}),
        ({"stop": "\n"}, {"stop": ("\n",)}),
        ({"stop": ["a", "b"]}, {"stop": ("a", "b")}),
        ({"temperature": None}, {"temperature": 0.7, "max_new_tokens": 512}),
        ({"presence_penalty": 1, "frequency_penalty": -1}, {"presence_penalty": 1, "frequency_penalty": -1}),
    ],
)
async def test_sampling_reaches_the_engine(ask, engine, given, asked):
    assert (await ask(given)).status_code == 200
    [call] = engine.asked("stream")
    assert {name: getattr(call.sampling, name) for name in asked} == asked


async def test_a_cut_reply_says_so(ask, engine):
    engine.says("Hello, captain, and welcome.")
    assert (await ask({"max_tokens": 2})).json()["choices"][0]["finish_reason"] == "length"


async def test_content_may_be_parts_and_any_role_may_speak(ask):
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]},
        user("Hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "42"},
    ]
    assert (await ask({"messages": messages})).status_code == 200
    stored = (await Turn.objects.aget()).messages
    assert stored[0]["content"] == "Be\nbrief."
    assert stored[2]["tool_calls"][0]["id"] == "a"


async def test_what_no_database_can_store_is_shown_as_a_sign(ask):
    assert (await ask(b'{"messages": [{"role": "user", "content": "a\\u0000b \\ud800"}]}')).status_code == 200
    assert (await Turn.objects.aget()).messages == [user("a\ufffdb \ufffd")]


@pytest.mark.parametrize("value", [b"NaN", b"-Infinity", b"1e999", b"[" * 150 + b"]" * 150])
async def test_what_is_no_json_or_too_deep_is_refused(ask, value):
    answer = await ask(b'{"messages": [{"role": "user", "content": "a", "more": ' + value + b"}]}")
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert not await Turn.objects.aexists()


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        (b"", 400, "invalid_request", "is empty"),
        (b"{", 400, "invalid_request", "not JSON"),
        (b'{"messages": "\xff\xfe"}', 400, "invalid_request", "not JSON"),
        (b"[]", 400, "invalid_request", ""),
        ({"messages": []}, 400, "invalid_request", "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, 400, "invalid_request", "role"),
        ({"messages": [{"content": "x"}]}, 400, "invalid_request", "role"),
        ({"messages": [assistant("Hi")]}, 400, "invalid_messages", "nothing to reply to"),
        ({"messages": [user("word " * 3000)]}, 400, "context_length_exceeded", "maximum context length is 2048 tokens"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "unsupported_parameter",
            "image_url",
        ),
        ({"n": 9}, 400, "invalid_request", "n: "),
        ({"response_format": {"type": "yaml"}}, 400, "invalid_request", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, 400, "invalid_request", "json_schema"),
        ({"functions": [{"name": "x"}]}, 400, "unsupported_parameter", "send tools"),
        ({"function_call": "auto"}, 400, "unsupported_parameter", "send tool_choice"),
        ({"logit_bias": {"5": 100}}, 400, "unsupported_parameter", "logit_bias"),
        ({"modalities": ["text", "audio"]}, 400, "unsupported_parameter", "modalities"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "invalid_request", "top_logprobs"),
        ({"metadata": {"k": "x" * 513}}, 400, "invalid_request", "metadata"),
        ({"messages": [{"role": "user", "content": None}]}, 400, "invalid_request", "needs content"),
        ({"messages": [user("a"), assistant("b") | {"tool_calls": "all"}]}, 400, "invalid_request", "tool_calls"),
        ({"tools": [TOOL | {"type": "custom"}]}, 400, "invalid_request", "'custom'"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, 400, "invalid_request", "tools.0"),
        ({"tools": [TOOL] * 257}, 400, "invalid_request", "tools"),
        ({"tool_choice": "required"}, 400, "invalid_request", "no tools are given"),
        ({"tools": [TOOL], "tool_choice": FORCED}, 400, "invalid_request", "no tool 'other'"),
        ({"tools": [TOOL], "response_format": {"type": "json_object"}}, 400, "unsupported_parameter", "call tools"),
        ({"seed": 2**64}, 400, "invalid_request", "64 bits"),
        ({"temperature": 3}, 400, "invalid_request", "temperature"),
        ({"temperature": "hot"}, 400, "invalid_request", "temperature"),
        ({"max_tokens": 0}, 400, "invalid_request", "max_tokens"),
        ({"stop": ["x"] * 17}, 400, "invalid_request", "stop"),
        ({"model": "gpt-4o"}, 404, "model_not_found", "gpt-4o"),
        ({"model": "talkback@7"}, 404, "model_not_found", "talkback@7"),
        ({"model": "talkback@x"}, 404, "model_not_found", "talkback@x"),
    ],
)
async def test_what_cannot_be_answered_says_why_and_stores_nothing(ask, engine, body, status, code, words):
    answer = await ask(body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert await Turn.objects.acount() == await Session.objects.acount() == 0
    assert not engine.calls


async def test_a_request_of_megabytes_is_too_large(ask):
    answer = await ask(b'{"messages": [{"role": "user", "content": "' + b"x" * (9 * 2**20) + b'"}]}')
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Bearer tb-wrong", "Basic dXNlcjpwYXNz"])
async def test_without_a_key_nothing_opens(async_client, key, header):
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        await async_client.post(PATH, b"{}", content_type="application/json", headers=headers),
        await async_client.get("/v1/models", headers=headers),
        await async_client.post("/v1/feedback", b"{}", content_type="application/json", headers=headers),
    ):
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"


async def test_a_revoked_key_opens_nothing(ask, key):
    from django.utils import timezone

    await ApiKey.objects.aupdate(revoked_at=timezone.now())
    assert (await ask({})).status_code == 401


async def test_a_keys_last_use_is_noted(ask, key):
    await ask({})
    assert (await ApiKey.objects.aget()).used_at is not None


async def test_an_unforeseen_failure_tells_nothing_of_the_inside(ask, monkeypatch):
    from chat import turns

    def broken(*args, **kwargs):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(turns, "lay_out", broken)
    answer = await ask({})
    assert answer.status_code == 500
    assert "secret" not in answer.content.decode()
    assert answer.json()["error"]["type"] == "server_error"


async def test_unknown_paths_answer_in_the_same_shape(async_client):
    answer = await async_client.get("/v1/nothing")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


async def test_a_failure_names_the_field_that_is_at_fault(ask):
    for body, param in (
        ({"temperature": 3}, "temperature"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": 5}]}]}, PART),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content.0.type"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"tools": [TOOL, {"type": "function"}]}, "tools.1.function"),
    ):
        assert (await ask(body)).json()["error"]["param"] == param


async def test_a_schema_that_the_engine_does_not_understand_is_the_requests_fault(ask, engine):
    body = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "odd"}}}}
    engine.goes_down(EngineRefused("The schema cannot be held to: unknown type 'odd'."))
    answer = await ask(body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    answer = await ask(body | {"stream": True})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


async def test_what_clients_leave_out_of_a_history_is_no_fault(ask):
    messages = [
        user("Hi"),
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": None},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
        {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": {"town": "Bonn"}}}]},
        {"role": "tool", "tool_call_id": "a"},
        user("Well?"),
    ]
    assert (await ask({"messages": messages})).status_code == 200
    _, empty, refusal, call, result, _ = (await Turn.objects.aget()).messages
    assert (empty, refusal) == (assistant(""), assistant("No."))
    assert call["tool_calls"][0]["function"]["arguments"] == '{"town": "Bonn"}'
    assert result["content"] == ""


async def test_a_session_with_an_odd_name_is_named_back_safely(ask):
    answer = await ask({"session_id": "s 1; Set-Cookie: a=b \u2713"})
    assert answer.json()["session_id"] == "s 1; Set-Cookie: a=b \u2713"
    assert answer.headers["X-Session-Id"].endswith("%E2%9C%93")
    refused = await ask({"session_id": "s 1\r\nSet-Cookie: a=b"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_session_name")
    assert "Set-Cookie" not in {*answer.headers, *refused.headers}


async def test_a_pinned_key_is_answered_by_its_checkpoint(ask, key, engine):
    base = await sync_to_async(Checkpoint.live)()
    await sync_to_async(base.move)(Checkpoint.Status.RETIRED)
    live = await Checkpoint.objects.acreate(number=1, status="live", adapter="talkback-1-x", path="x")
    await engine.load_adapter(live.adapter, str(live.folder))
    await ApiKey.objects.aupdate(checkpoint=base)

    assert (await ask({})).json()["model"] == "talkback@0"
    assert (await ask({"model": "talkback@base"})).json()["model"] == "talkback@0"
    assert (await ask({"model": "talkback@1"})).status_code == 404


async def test_the_weights_that_answer_are_named(ask, engine):
    assert (await ask({})).json()["system_fingerprint"] == "base"


async def test_thoughts_and_calls_are_counted_apart(ask, engine):
    engine.says("<think>Short, then.</think>Hello.")
    usage = (await ask({})).json()["usage"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]


async def test_a_conversation_continues_with_no_header_at_all(ask, engine):
    first = (await ask({})).json()
    said = first["choices"][0]["message"]["content"]
    await ask({"messages": [*HELLO, assistant(said), user("No, in French.")]})

    turn, second = [turn async for turn in Turn.objects.order_by("position")]
    assert await Session.objects.acount() == 1
    assert second.follows_id == turn.pk
    assert (turn.status, turn.next_state) == (Turn.Status.OBSERVED, [user("No, in French.")])


async def test_headers_name_session_turn_type_and_end(ask):
    first = (await ask({}, **{"X-Session-Id": "s1", "X-Turn-Type": "side"})).json()
    await ask({"messages": [user("Other")]}, **{"X-Session-Id": "s1", "X-Session-Done": "true"})

    session = await Session.objects.aget()
    side, last = [turn async for turn in Turn.objects.order_by("position")]
    assert session.external_id == "s1"
    assert session.closed_at is not None
    assert (side.completion_id, side.line) == (first["id"], Turn.Line.SIDE)
    assert (last.line, last.status) == (Turn.Line.MAIN, Turn.Status.CLOSED)


async def test_the_body_may_say_the_same_as_the_headers(ask):
    await ask({"session_id": "s1", "turn_type": "side", "session_done": True})
    session, turn = await Session.objects.aget(), await Turn.objects.aget()
    assert (session.external_id, turn.line) == ("s1", Turn.Line.SIDE)
    assert session.closed_at is not None


async def test_the_models_that_answer_are_listed(ask, async_client, key):
    base = await sync_to_async(Checkpoint.live)()
    await sync_to_async(base.move)(Checkpoint.Status.RETIRED)
    for number, status in ((1, "live"), (2, "candidate")):
        await Checkpoint.objects.acreate(number=number, status=status, adapter=f"talkback-{number}-x")
    headers = {"Authorization": f"Bearer {key.secret}"}

    listed = (await async_client.get("/v1/models", headers=headers)).json()

    assert [model["id"] for model in listed["data"]] == ["talkback", "talkback@1", "talkback@0", "talkback@base"]
    one = (await async_client.get("/v1/models/talkback", headers=headers)).json()
    assert (one["id"], one["root"]) == ("talkback", "talkback@1")
    assert (await async_client.get("/v1/models/talkback@2", headers=headers)).status_code == 404


async def test_a_request_may_name_the_checkpoint_that_answers(ask, engine):
    base = await sync_to_async(Checkpoint.live)()
    await sync_to_async(base.move)(Checkpoint.Status.RETIRED)
    live = await Checkpoint.objects.acreate(number=1, status="live", adapter="talkback-1-x", path="x")
    await engine.load_adapter(live.adapter, str(live.folder))

    assert (await ask({"model": "talkback"})).json()["model"] == "talkback@1"
    assert (await ask({"model": "talkback@0"})).json()["model"] == "talkback@0"
    assert [call.adapter for call in engine.asked("stream")] == [live.adapter, None]


@pytest.mark.parametrize("path", PROTOCOLS)
async def test_a_large_body_is_read_beside_the_event_loop_and_answered_alike(ask, engine, path, monkeypatch):
    from chat.api import addressing, aside

    read_in = []

    def noting(body):
        read_in.append(threading.current_thread() is threading.main_thread())
        return real(body)

    real = addressing.storable
    monkeypatch.setattr(addressing, "storable", lambda value: noting(value) if isinstance(value, dict) else real(value))
    large = {"metadata": {"note": "x"}, "padding": "x" * aside.LARGE}
    engine.says("Hello, captain.", times=2)
    for body in (PROTOCOLS[path], PROTOCOLS[path] | large):
        answer = await ask(body, path)
        assert (answer.status_code, b"Hello, captain." in answer.content) == (200, True)
    assert read_in == [True, False]
    refused = await ask(large, path) if path != PATH else await ask(large | {"messages": []})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")
    keyless = await ask(PROTOCOLS[path] | large, path, secret="tb-wrong")
    assert keyless.status_code == 401
