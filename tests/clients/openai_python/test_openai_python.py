"""OpenAI's own Python client against a live server: what it must be pleased with, it is."""

from __future__ import annotations

import json
from typing import Any

import openai
import pydantic
import pytest
from django.utils import timezone

from chat.api_keys import ApiKey
from chat.models import Turn
from chat.replying import replies
from feedback.models import Feedback
from tests.clients.openai_python.waiting import HI

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What the weather is like in a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
    },
}


def called(town: str) -> str:
    return f'<tool_call>\n{{"name": "weather", "arguments": {{"town": "{town}"}}}}\n</tool_call>'


def test_plain(say, engine):
    engine.says("Hello, captain.")
    answer = say()
    assert answer.choices[0].message.content == "Hello, captain."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].logprobs is None
    assert answer.model == "talkback@0"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_streaming_comes_token_by_token(say, engine):
    engine.says("Hello, captain.")
    engine.hold(after=3)
    texts = []
    for chunk in say(stream=True, stream_options={"include_usage": True}):
        if chunk.choices:
            assert chunk.usage is None
            texts.append(chunk.choices[0].delta.content or "")
        if engine.holding.is_set() and "".join(texts):
            engine.release()  # the first words were here before the last were sampled
    assert "".join(texts) == "Hello, captain."
    assert chunk.usage.completion_tokens > 3


def test_the_clients_own_stream_puts_the_answer_together(client, engine):
    engine.says(f"One moment.\n{called('Lisbon')}")
    tools = [openai.pydantic_function_tool(Weather, name="weather")]
    with client.chat.completions.stream(model="talkback", messages=HI, tools=tools) as stream:
        kinds = {event.type for event in stream}
        whole = stream.get_final_completion().choices[0]
    assert {"content.delta", "tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert whole.message.content.strip() == "One moment."
    assert whole.message.tool_calls[0].function.parsed_arguments == Weather(town="Lisbon")
    assert whole.finish_reason == "tool_calls"


def test_a_tool_is_called_and_its_result_taken(say, engine):
    engine.says(called("Lisbon"))
    answer = say(tools=[WEATHER]).choices[0]
    [call] = answer.message.tool_calls
    assert (answer.finish_reason, call.type, call.function.name) == ("tool_calls", "function", "weather")
    assert json.loads(call.function.arguments) == {"town": "Lisbon"}
    assert answer.message.content is None

    engine.says("It is warm.")
    result = {"role": "tool", "tool_call_id": call.id, "content": "31 degrees"}
    after = say([*HI, answer.message, result], tools=[WEATHER]).choices[0]
    assert (after.message.content, after.finish_reason) == ("It is warm.", "stop")
    first, second = Turn.objects.order_by("position")
    assert second.follows_id == first.pk
    assert [message["role"] for message in first.next_state] == ["tool"]


def test_tools_that_run_in_parallel(say, engine):
    engine.says(f"{called('Lisbon')}\n{called('Porto')}")
    calls = say(tools=[WEATHER]).choices[0].message.tool_calls
    assert [json.loads(call.function.arguments)["town"] for call in calls] == ["Lisbon", "Porto"]
    assert len({call.id for call in calls}) == 2


def test_one_call_where_only_one_may_run(say, engine):
    engine.says(called("Lisbon").removesuffix("</tool_call>"))  # as an engine leaves it that stops there
    answer = say(tools=[WEATHER], parallel_tool_calls=False).choices[0]
    assert [json.loads(call.function.arguments) for call in answer.message.tool_calls] == [{"town": "Lisbon"}]
    assert answer.finish_reason == "tool_calls"
    assert "</tool_call>" in engine.asked("stream")[0].sampling.stop


def test_calls_are_streamed_as_openai_streams_them(say, engine):
    engine.says(f"{called('Lisbon')}\n{called('Porto')}")
    chunks = [chunk.choices[0] for chunk in say(tools=[WEATHER], stream=True)]
    pieces = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
    heads = [piece for piece in pieces if piece.id]
    assert [(head.index, head.type, head.function.name) for head in heads] == [
        (0, "function", "weather"),
        (1, "function", "weather"),
    ]
    for index, town in enumerate(("Lisbon", "Porto")):
        mine = [piece for piece in pieces if piece.index == index]
        assert mine[0].id
        assert not any(piece.id or piece.type or piece.function.name for piece in mine[1:])
        assert json.loads("".join(piece.function.arguments for piece in mine)) == {"town": town}
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["tool_calls"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_tool_that_must_be_called_is(say, engine, choice):
    engine.says('{"name": "weather", "arguments": {"town": "Lisbon"}}\n</tool_call>')
    message = say(tools=[WEATHER], tool_choice=choice).choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["weather"]
    [asked] = engine.asked("stream")
    assert "weather" in (asked.sampling.json_schema or "")


def test_a_tool_that_must_not_be_called_is_not_shown(say, engine):
    say(tools=[WEATHER], tool_choice="none")
    assert "weather" not in engine.asked("stream")[0].prompt


def test_reasoning_comes_apart_from_the_words(say, engine):
    engine.says("<think>\nShort, then.\n</think>\n\nHello.", times=2)
    message = say().choices[0].message
    assert (message.reasoning_content.strip(), message.content) == ("Short, then.", "Hello.")
    deltas = [chunk.choices[0].delta for chunk in say([*HI, {"role": "user", "content": "Again"}], stream=True)]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas).strip() == "Short, then."
    assert "".join(delta.content or "" for delta in deltas) == "Hello."


class Weather(pydantic.BaseModel):
    town: str


def test_a_reply_is_held_to_a_schema(client, engine):
    engine.says('{"town": "Lisbon"}')
    answer = client.chat.completions.parse(model="talkback", messages=HI, response_format=Weather)
    assert answer.choices[0].message.parsed == Weather(town="Lisbon")
    [asked] = engine.asked("stream")
    assert json.loads(asked.sampling.json_schema)["properties"] == {"town": {"type": "string"}}


def test_any_json_object_will_do(say, engine):
    engine.says("{}")
    assert say(response_format={"type": "json_object"}).choices[0].message.content == "{}"
    assert json.loads(engine.asked("stream")[0].sampling.json_schema) == {"type": "object"}


def test_several_choices(say, engine):
    for text in ("Hello.", "Good day.", "Hi there, captain."):
        engine.says(text)
    answer = say(n=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.message.content for choice in answer.choices} == {"Hello.", "Good day.", "Hi there, captain."}
    turns = list(Turn.objects.all())
    assert answer.usage.prompt_tokens == len(turns[0].prompt_ids)
    assert answer.usage.completion_tokens == sum(len(turn.response_ids) for turn in turns)
    assert {turn.completion_id for turn in turns} == {answer.id, f"{answer.id}.1", f"{answer.id}.2"}


def test_several_choices_in_one_stream(say, engine):
    engine.says("Hello.", times=2)
    texts, ends = ["", ""], []
    for chunk in say(n=2, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            ends += [choice.index] if choice.finish_reason else []
    assert texts == ["Hello.", "Hello."]
    assert sorted(ends) == [0, 1]


def test_log_probs(say, engine):
    engine.says("Hello, captain.", times=2)
    answer = say(logprobs=True).choices[0]
    assert "".join(entry.token for entry in answer.logprobs.content) == "Hello, captain."
    assert b"".join(bytes(entry.bytes) for entry in answer.logprobs.content) == b"Hello, captain."
    turn = Turn.objects.get()
    assert [entry.logprob for entry in answer.logprobs.content] == turn.logprobs[: len(answer.logprobs.content)]

    chunks = say([*HI, {"role": "user", "content": "Again"}], logprobs=True, stream=True)
    entries = [entry for chunk in chunks if chunk.choices[0].logprobs for entry in chunk.choices[0].logprobs.content]
    assert "".join(entry.token for entry in entries) == "Hello, captain."


def test_the_likeliest_tokens_stand_beside_each(say, engine):
    engine.says("Hello.")
    for entry in say(logprobs=True, top_logprobs=2).choices[0].logprobs.content:
        assert len(entry.top_logprobs) == 2
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob
    assert engine.asked("stream")[0].sampling.top_logprobs == 2


def test_what_is_not_to_be_stored_is_not_learned_from(say):
    say(store=False)
    assert Turn.objects.get().learns is False


def test_models(client):
    assert [model.id for model in client.models.list()] == ["talkback", "talkback@0", "talkback@base"]
    base = client.models.retrieve("talkback@base")
    assert (base.id, base.root, base.context_window) == ("talkback@base", "talkback@0", 2048)


def test_an_answer_and_a_failure_say_their_request_id(client, say):
    assert say()._request_id.startswith("req_")
    with pytest.raises(openai.NotFoundError) as failure:
        client.models.retrieve("gpt-of-elsewhere")
    assert failure.value.request_id.startswith("req_")


def refused(error: type[openai.APIStatusError], say: Any, **more: Any) -> openai.APIStatusError:
    with pytest.raises(error) as caught:
        say(**more)
    assert caught.value.body["message"]
    return caught.value


def test_a_request_at_fault_says_where(say):
    fault = refused(openai.BadRequestError, say, messages=[{"role": "user", "content": [{"type": "text", "text": 5}]}])
    assert (fault.code, fault.param) == ("invalid_request", "messages.0.content.0.text")
    fault = refused(openai.BadRequestError, say, tools=[{"type": "function", "function": {"name": "two words"}}])
    assert fault.param == "tools.0.function.name"


def test_a_conversation_that_does_not_fit_says_what_to_set(say):
    fault = refused(openai.BadRequestError, say, messages=[{"role": "user", "content": "word " * 3000}])
    assert fault.code == "context_length_exceeded"
    assert "This model's maximum context length is 2048 tokens. However, you requested " in fault.message
    assert "MODEL=" in fault.message


def test_an_unknown_model_is_not_found(say):
    assert refused(openai.NotFoundError, say, model="gpt-4o").code == "model_not_found"


def test_a_wrong_key_is_refused(site):
    stranger = openai.OpenAI(base_url=f"{site}/v1", api_key="tb-wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as refusal:
        stranger.models.list()
    assert refusal.value.code == "invalid_api_key"


def test_a_revoked_key_is_refused_at_once(say, key):
    say()
    ApiKey.objects.update(revoked_at=timezone.now())
    assert refused(openai.AuthenticationError, say).code == "invalid_api_key"


def test_a_key_for_something_else_is_refused(say, key):
    ApiKey.objects.update(scopes=["feedback"])
    assert refused(openai.PermissionDeniedError, say).code == "insufficient_scope"


def test_a_key_that_spent_its_tokens_hears_when_there_are_more(say, key):
    ApiKey.objects.update(tokens_per_day=1)
    say()
    fault = refused(openai.RateLimitError, say, messages=[{"role": "user", "content": "More"}])
    assert fault.code == "rate_limit_exceeded"
    assert int(fault.response.headers["Retry-After"]) > 0


def test_a_route_asked_the_wrong_way_says_which_one_it_knows(client):
    with pytest.raises(openai.APIStatusError) as refusal:
        client.get("/chat/completions", cast_to=dict)
    assert (refusal.value.status_code, refusal.value.code) == (405, "method_not_allowed")
    assert refusal.value.response.headers["Allow"] == "POST"


def test_no_engine_says_when_to_ask_again(say, engine):
    engine.goes_down()
    fault = refused(openai.InternalServerError, say)
    assert (fault.status_code, fault.code) == (503, "engine_unavailable")
    assert fault.response.headers["Retry-After"]


def test_an_engine_that_fails_in_mid_stream_is_an_error_of_the_clients(say, engine):
    engine.goes_down()
    with pytest.raises(openai.APIError) as failure:
        list(say(stream=True))
    assert failure.value.body["code"] == "engine_unavailable"


def test_a_client_may_try_again_by_itself(client, engine, monkeypatch):
    """The client's own retries: the engine is back at the second attempt."""
    monkeypatch.setattr(replies, "PATIENCE_S", 0.0)
    engine.goes_down()
    heard: list[int] = []

    def coming_back(*args: Any, **kwargs: Any) -> Any:
        heard.append(1)
        if len(heard) == 2:
            engine.comes_back()
        return original(*args, **kwargs)

    original, engine.stream = engine.stream, coming_back
    engine.says("Hello again.")
    answer = client.with_options(max_retries=2).chat.completions.create(model="talkback", messages=HI)
    assert answer.choices[0].message.content == "Hello again."
    assert len(heard) == 2


def test_a_session_by_name_is_named_back(client, engine):
    raw = client.chat.completions.with_raw_response.create(
        model="talkback", messages=HI, extra_headers={"X-Session-Id": "s1"}, stream=False
    )
    assert raw.headers["X-Session-Id"] == "s1"
    assert raw.parse().session_id == "s1"


def test_feedback_on_a_completion(client, say):
    answer = say()
    said = {"completion_id": answer.id, "thumb": "down", "guidance": "Be brief."}
    assert client.post("/feedback", body=said, cast_to=dict)["thumb"] == "down"
    assert Feedback.objects.standing().count() == 2
    assert Turn.objects.get().status == Turn.Status.OBSERVED
