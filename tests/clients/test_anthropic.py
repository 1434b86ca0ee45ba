"""Anthropic's own client against a live server: what it must be pleased with, it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import anthropic
import pytest

from chat.models import Session, Turn
from feedback.models import Feedback
from tests.clients.conftest import assert_that_leaving_aborts

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [{"role": "user", "content": "Say hello"}]
WEATHER: Any = {
    "name": "weather",
    "description": "What the weather is like in a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def called(city: str) -> str:
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"city": "{city}"}}}}\n</tool_call>'


@pytest.fixture
def client(site, key) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=site, api_key=key.secret, max_retries=0, timeout=20) as client:
        yield client


def say(client: anthropic.Anthropic, messages: Any = HI, **more: Any) -> Any:
    return client.messages.create(**{"model": "talkback", "max_tokens": 200, "messages": messages} | more)


def test_plain(client, engine):
    engine.says("Hello, captain.")
    answer = say(client)
    assert [block.text for block in answer.content] == ["Hello, captain."]
    assert (answer.stop_reason, answer.model, answer.role) == ("end_turn", "talkback@0", "assistant")
    assert answer.id.startswith("msg_")
    turn = Turn.objects.get(completion_id=answer.id)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (len(turn.prompt_ids), len(turn.response_ids))
    assert (turn.protocol, turn.line, turn.status) == ("messages", Turn.Line.MAIN, Turn.Status.SERVED)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_reply_is_held_to_a_schema(client, engine, is_streamed):
    schema = WEATHER["input_schema"]
    asked = {"model": "talkback", "max_tokens": 200, "messages": HI}
    asked |= {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    engine.says('{"city": "Paris"}')
    if is_streamed:
        with client.messages.stream(**asked) as stream:
            answer = stream.get_final_message()
    else:
        answer = client.messages.create(**asked)
    assert json.loads(answer.content[0].text) == {"city": "Paris"}
    (call,) = engine.asked("stream")
    assert json.loads(call.sampling.json_schema) == schema
    assert "grammar" in Turn.objects.get().marks


def test_a_long_call_that_breaks_is_text_in_a_stream_too(client, engine):
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "' + "x" * 600
    engine.says(text)
    asked = {"model": "talkback", "max_tokens": 1500, "messages": HI, "tools": [WEATHER]}
    with client.messages.stream(**asked) as stream:
        answer = stream.get_final_message()
    assert [(block.type, block.text) for block in answer.content] == [("text", text)]
    assert answer.stop_reason == "end_turn"


def test_a_long_call_comes_whole_in_a_stream(client, engine):
    engine.says(called("x" * 600))
    asked = {"model": "talkback", "max_tokens": 1500, "messages": HI, "tools": [WEATHER]}
    with client.messages.stream(**asked) as stream:
        answer = stream.get_final_message()
    assert [(block.type, block.input) for block in answer.content] == [("tool_use", {"city": "x" * 600})]
    assert answer.stop_reason == "tool_use"


def test_the_models_that_answer_can_be_listed(client):
    assert [model.id for model in client.models.list()][:2] == ["talkback", "talkback@0"]


def test_a_model_has_the_fields_that_anthropic_gives_it(client):
    page = client.models.list()
    assert (page.first_id, page.last_id, page.has_more) == (page.data[0].id, page.data[-1].id, False)

    model = client.models.retrieve("talkback")
    assert (model.id, model.type, model.display_name) == ("talkback", "model", "talkback (talkback@0)")
    assert client.models.retrieve("talkback@0").display_name == "talkback@0"
    assert (model.lifecycle, model.deprecated_at, model.retires_at) == ("active", None, None)
    assert model.max_input_tokens == model.max_tokens == 2048  # the tiny model's window
    assert isinstance(model.created_at, datetime)
    assert model.created_at.utcoffset() == timedelta(0)


def test_an_answer_and_a_failure_say_their_request_id(client):
    assert say(client)._request_id.startswith("req_")
    with pytest.raises(anthropic.NotFoundError) as failure:
        client.models.retrieve("claude-of-elsewhere")
    assert failure.value.request_id.startswith("req_")


def test_a_bearers_token_opens_as_well(site, key, engine):
    engine.says("Hello, captain.")
    with anthropic.Anthropic(base_url=site, auth_token=key.secret, api_key=None, max_retries=0) as client:
        assert say(client).content[0].text == "Hello, captain."


def test_streaming_comes_token_by_token(client, engine):
    engine.says("Hello, captain.")
    engine.hold(after=3)
    texts = []
    with client.messages.stream(model="talkback", max_tokens=200, messages=HI) as stream:
        for text in stream.text_stream:
            texts.append(text)
            if engine.holding.is_set():
                engine.release()  # the first words were here before the last were sampled
        answer = stream.get_final_message()
    assert len(texts) > 3
    assert "".join(texts) == answer.content[0].text == "Hello, captain."
    turn = Turn.objects.get(completion_id=answer.id)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (len(turn.prompt_ids), len(turn.response_ids))
    assert answer.stop_reason == "end_turn"


def test_events_come_in_the_official_order(client, engine):
    engine.says("Hello.")
    names = [event.type for event in say(client, stream=True)]
    assert names[:2] == ["message_start", "content_block_start"]
    assert set(names[2:-3]) == {"content_block_delta"}
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


@pytest.mark.parametrize("streaming", [False, True])
def test_tools_in_parallel_and_their_results_make_one_session(client, engine, streaming):
    engine.says(f"Let me look.\n{called('Paris')}\n{called('Rome')}")
    engine.says("Sun in Paris, rain in Rome.", to="18 degrees")
    messages: list[Any] = [{"role": "user", "content": "How is the weather in Paris and Rome?"}]
    if streaming:
        with client.messages.stream(model="talkback", max_tokens=200, messages=messages, tools=[WEATHER]) as stream:
            first = stream.get_final_message()
    else:
        first = say(client, messages, tools=[WEATHER])
    assert first.stop_reason == "tool_use"
    assert first.content[0].text.strip() == "Let me look."
    calls = [block for block in first.content if block.type == "tool_use"]
    assert [(call.name, call.input) for call in calls] == [
        ("weather", {"city": "Paris"}),
        ("weather", {"city": "Rome"}),
    ]
    results: list[Any] = [
        {"type": "tool_result", "tool_use_id": calls[0].id, "content": [{"type": "text", "text": "sun, 18 degrees"}]},
        {"type": "tool_result", "tool_use_id": calls[1].id, "content": "no such city", "is_error": True},
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = say(client, messages, tools=[WEATHER])
    assert second.content[0].text == "Sun in Paris, rain in Rome."

    one, two = Turn.objects.order_by("position")
    assert Session.objects.count() == 1
    assert two.follows == one
    assert one.status == Turn.Status.OBSERVED
    assert [(said["role"], said["content"]) for said in one.next_state] == [
        ("tool", "sun, 18 degrees"),
        ("tool", "Error: no such city"),
    ]
    assert one.finish_reason == "tool_calls"


def test_a_reply_cut_at_its_length_says_so(client, engine):
    engine.says("word " * 50)
    assert say(client, max_tokens=5).stop_reason == "max_tokens"


def test_a_tool_must_be_called_where_the_request_says_so(client, engine):
    engine.says('{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    answer = say(client, tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"})
    assert [block.input for block in answer.content] == [{"city": "Paris"}]
    (call,) = engine.asked("stream")
    assert '"weather"' in call.sampling.json_schema


def test_counting_stores_nothing(client, engine):
    count = client.messages.count_tokens(model="talkback", messages=HI, tools=[WEATHER]).input_tokens
    assert not Turn.objects.exists()
    engine.says("Hello.")
    assert say(client, tools=[WEATHER]).usage.input_tokens == count


def test_errors_are_the_clients_own(client, site, engine):
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 2048 maximum") as too_long:
        say(client, [{"role": "user", "content": "word " * 3000}])
    assert too_long.value.type == "invalid_request_error"
    with pytest.raises(anthropic.NotFoundError) as unknown:
        say(client, model="claude-opus")
    assert unknown.value.type == "not_found_error"
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        say(client, extra_body={"temperature": 3})
    with pytest.raises(anthropic.BadRequestError, match="web_search"):
        say(client, tools=[{"type": "web_search_20250305", "name": "web_search"}])
    stranger = anthropic.Anthropic(base_url=site, api_key="tb-wrong", max_retries=0)
    with stranger, pytest.raises(anthropic.AuthenticationError) as strange:
        say(stranger)
    assert strange.value.type == "authentication_error"
    engine.goes_down()
    with pytest.raises(anthropic.APIStatusError) as away:
        say(client)
    assert (away.value.status_code, away.value.type) == (503, "overloaded_error")
    assert away.value.response.headers["Retry-After"]


def test_an_error_in_mid_stream_is_an_error_event(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    stream = say(client, stream=True)
    for event in stream:
        if event.type == "content_block_delta":
            break
    engine.goes_down()
    engine.release()
    with pytest.raises(anthropic.APIStatusError) as broken:
        list(stream)
    assert broken.value.type == "overloaded_error"


def test_a_client_that_leaves_stops_the_engine_and_its_turn_is_aborted(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    stream = say(client, stream=True)
    for event in stream:
        if event.type == "content_block_delta":
            break
    stream.close()
    assert_that_leaving_aborts(engine)


def test_feedback_by_the_messages_id(client, engine, site, key):
    answer = say(client)
    said = {"completion_id": answer.id, "thumb": "down"}
    client.post(
        "/v1/feedback", body=said, cast_to=object, options={"headers": {"Authorization": f"Bearer {key.secret}"}}
    )
    assert Feedback.objects.standing().count() == 1
    assert Turn.objects.get().status == Turn.Status.OBSERVED
