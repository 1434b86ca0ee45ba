"""OpenAI's own client on Responses, against a live server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from chat.models import Session, Turn
from feedback.models import Feedback
from tests.clients.conftest import assert_that_leaving_aborts
from tests.clients.test_anthropic import called

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "What the weather is like in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


@pytest.fixture
def client(site, key) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{site}/v1", api_key=key.secret, max_retries=0, timeout=20) as client:
        yield client


def test_plain(client, engine):
    engine.says("Hello, captain.")
    answer = client.responses.create(
        model="talkback", input="Say hello", instructions="Be a pirate.", metadata={"a": "b"}
    )
    assert answer.output_text == "Hello, captain."
    assert (answer.status, answer.model, answer.metadata) == ("completed", "talkback@0", {"a": "b"})
    assert answer.id.startswith("resp_")
    turn = Turn.objects.get(completion_id=answer.id)
    assert [said["content"] for said in turn.messages] == ["Be a pirate.", "Say hello"]
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (len(turn.prompt_ids), len(turn.response_ids))
    assert (turn.protocol, turn.line, turn.status) == ("responses", Turn.Line.MAIN, Turn.Status.SERVED)


def test_streaming_comes_token_by_token_and_adds_up(client, engine):
    engine.says("Hello, captain.")
    engine.hold(after=3)
    texts = []
    with client.responses.stream(model="talkback", input="Say hello") as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                texts.append(event.delta)
                if engine.holding.is_set():
                    engine.release()  # the first words were here before the last were sampled
        answer = stream.get_final_response()
    assert len(texts) > 3
    assert "".join(texts) == answer.output_text == "Hello, captain."
    assert answer.usage.output_tokens == len(Turn.objects.get(completion_id=answer.id).response_ids)


def test_events_come_in_the_official_order(client, engine):
    engine.says("Hello.")
    events = list(client.responses.create(model="talkback", input="Say hello", stream=True))
    names = [event.type.removeprefix("response.") for event in events]
    assert names[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert set(names[4:-4]) == {"output_text.delta"}
    assert names[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_a_reply_is_continued_by_its_id_alone(client, engine):
    engine.says("Arr, hello.", to="Be a pirate")
    engine.says("Arr, bye.", to="(?s)Hi.*Arr, hello.*Bye")
    first = client.responses.create(model="talkback", input="Hi", instructions="Be a pirate.")
    second = client.responses.create(model="talkback", input="Bye", previous_response_id=first.id)
    assert second.output_text == "Arr, bye."
    assert second.previous_response_id == first.id
    one, two = Turn.objects.order_by("position")
    assert two.follows == one
    assert [said["content"] for said in two.messages] == ["Hi", "Arr, hello.", "Bye"]  # instructions do not go on
    assert [said["content"] for said in one.next_state] == ["Bye"]
    assert Session.objects.count() == 1


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("by_id", [False, True])
def test_tools_in_parallel_and_their_results_make_one_session(client, engine, streaming, by_id):
    engine.says(f"Let me look.\n{called('Paris')}\n{called('Rome')}")
    engine.says("Sun in both.", to="18 degrees")
    said: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "The weather in Paris and Rome?"}]}]
    if streaming:
        with client.responses.stream(model="talkback", input=said, tools=[WEATHER]) as stream:
            first = stream.get_final_response()
    else:
        first = client.responses.create(model="talkback", input=said, tools=[WEATHER])
    calls = [item for item in first.output if item.type == "function_call"]
    assert [(call.name, call.arguments) for call in calls] == [
        ("weather", '{"city": "Paris"}'),
        ("weather", '{"city": "Rome"}'),
    ]
    assert first.output_text.strip() == "Let me look."
    results = [
        {"type": "function_call_output", "call_id": calls[0].call_id, "output": "sun, 18 degrees"},
        {
            "type": "function_call_output",
            "call_id": calls[1].call_id,
            "output": [{"type": "input_text", "text": "sun"}],
        },
    ]
    if by_id:
        more = {"input": results, "previous_response_id": first.id}
    else:
        more = {"input": [*said, *[item.model_dump(exclude_none=True) for item in first.output], *results]}
    second = client.responses.create(model="talkback", tools=[WEATHER], **more)
    assert second.output_text == "Sun in both."

    one, two = Turn.objects.order_by("position")
    assert Session.objects.count() == 1
    assert two.follows == one
    assert [(said["role"], said["content"]) for said in one.next_state] == [
        ("tool", "sun, 18 degrees"),
        ("tool", "sun"),
    ]
    assert one.finish_reason == "tool_calls"


class Sum(BaseModel):
    total: int


def test_structured_output_is_asked_of_the_engine_and_parsed(client, engine):
    engine.says('{"total": 4}')
    answer = client.responses.parse(model="talkback", input="Two and two", text_format=Sum)
    assert answer.output_parsed == Sum(total=4)
    (call,) = engine.asked("stream")
    assert '"total"' in call.sampling.json_schema


def test_a_reply_cut_at_its_length_is_incomplete(client, engine):
    engine.says("word " * 50, times=2)
    answer = client.responses.create(model="talkback", input="Go on", max_output_tokens=5)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    *_, last = client.responses.create(model="talkback", input="Go on", max_output_tokens=5, stream=True)
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")


def test_an_answer_is_found_again(client, engine, site, ben):
    engine.says("Hello, captain.")
    answer = client.responses.create(model="talkback", input="Say hello")
    again = client.responses.retrieve(answer.id)
    assert (again.output, again.status, again.model) == (answer.output, "completed", "talkback@0")
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_unknown")


def test_another_persons_answers_are_not_found(client, engine, site, ben):
    from chat.api_keys import ApiKey

    answer = client.responses.create(model="talkback", input="Say hello")
    _, secret = ApiKey.objects.issue(ben, "his")
    with openai.OpenAI(base_url=f"{site}/v1", api_key=secret, max_retries=0) as his:
        with pytest.raises(openai.NotFoundError):
            his.responses.retrieve(answer.id)
        with pytest.raises(openai.BadRequestError) as unknown:
            his.responses.create(model="talkback", input="Bye", previous_response_id=answer.id)
        with pytest.raises(openai.NotFoundError):
            his.responses.cancel(answer.id)
        assert (unknown.value.code, unknown.value.param) == ("previous_response_not_found", "previous_response_id")


def test_an_answer_that_is_being_written_can_be_cancelled(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    stream = client.responses.create(model="talkback", input="Say hello", stream=True)
    events = []
    for event in stream:
        events.append(event)
        if event.type == "response.output_text.delta" and engine.holding.is_set():
            client.responses.cancel(events[0].response.id)  # the engine is held: only this can end the stream
    assert (events[-1].type, events[-1].response.status) == ("response.incomplete", "cancelled")
    assert client.responses.retrieve(events[0].response.id).status == "cancelled"


def test_errors_are_the_clients_own(client, engine):
    with pytest.raises(openai.BadRequestError) as too_long:
        client.responses.create(model="talkback", input="word " * 3000)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="gpt-5", input="Hi")
    with pytest.raises(openai.BadRequestError, match="web_search"):
        client.responses.create(model="talkback", input="Hi", tools=[{"type": "web_search"}])
    with pytest.raises(openai.BadRequestError, match="truncation"):
        client.responses.create(model="talkback", input="Hi", truncation="auto")
    image: Any = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}]}]
    with pytest.raises(openai.BadRequestError, match="input_image"):
        client.responses.create(model="talkback", input=image)
    assert not Turn.objects.exists()


def test_a_failure_in_mid_stream_is_response_failed(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    for event in client.responses.create(model="talkback", input="Say hello", stream=True):
        if event.type == "response.output_text.delta":
            engine.goes_down()
            engine.release()
    assert (event.type, event.response.status, event.response.error.code) == (
        "response.failed",
        "failed",
        "engine_unavailable",
    )


def test_a_client_that_leaves_stops_the_engine_and_its_turn_is_aborted(client, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=3)
    stream = client.responses.create(model="talkback", input="Say hello", stream=True)
    for event in stream:
        if event.type == "response.output_text.delta":
            break
    stream.close()
    assert_that_leaving_aborts(engine)


def test_feedback_by_the_responses_id(client, engine):
    answer = client.responses.create(model="talkback", input="Say hello")
    client.post("/feedback", body={"completion_id": answer.id, "thumb": "down"}, cast_to=dict)
    assert Feedback.objects.standing().count() == 1
