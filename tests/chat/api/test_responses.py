"""OpenAI's Responses: items in, items and events out, and every refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from pydantic import ValidationError

from chat.api import response_items
from chat.api.response_answers import answer
from chat.api.response_events import ResponseEvents
from chat.api.response_items import ResponsesItem
from chat.api.responses_request import ResponsesRequest
from chat.api.sent import NotOffered
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying.deltas import ReplyDelta
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from tests.chat.api.test_messages import MESSAGE, REPLY, told

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

CALL = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Paris"}'}


def read(*items: Any) -> list[dict[str, Any]]:
    return response_items.messages([ResponsesItem.model_validate(item) for item in items], lambda name: [])


def test_items_become_chat_messages():
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]}
    assert read(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": "there"}]},
        thought,
        said,
        CALL,
        CALL | {"call_id": "call_2"},
        {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "rain"}]},
    ) == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi\nthere"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
                for id in ("call_1", "call_2")
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sun"},
        {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
    ]


def test_a_thought_is_read_from_its_summary_where_there_is_nothing_else():
    summed_up = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    assert read(summed_up) == [{"role": "assistant", "content": "", "reasoning_content": "Hm."}]


@pytest.mark.parametrize("kind", ["mcp_call", "computer_call", "compaction", "web_search_call"])
def test_other_items_are_refused_by_name(kind):
    with pytest.raises(NotOffered, match=kind):
        read({"type": kind})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": [{"role": "pilot", "content": "Hi"}]}, "a message's role"),
        ({"input": [{"role": "user"}]}, "needs content"),
        ({"input": [{"type": "item_reference"}]}, "needs id"),
        ({"tools": [{"type": "function"}]}, "needs a name"),
        ({"tool_choice": "required"}, "no tools are given"),
        ({"tool_choice": {"type": "function", "name": "fly"}}, "no tool 'fly'"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "needs a schema"),
        ({"metadata": {"a": "b" * 513}}, "metadata"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(body, said):
    with pytest.raises(ValidationError, match=said):
        ResponsesRequest.model_validate({"input": "Hi"} | body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"tools": [{"type": "custom", "name": "apply_patch"}]}, "custom"),
        ({"tool_choice": {"type": "file_search"}}, "file_search"),
        (
            {"tools": [{"type": "function", "name": "x"}], "text": {"format": {"type": "json_object"}}},
            "while it may call tools",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(body, said):
    with pytest.raises(NotOffered, match=said):
        ResponsesRequest.model_validate({"input": "Hi"} | body).check_offered()


def test_only_the_allowed_tools_are_shown():
    tools = [{"type": "function", "name": name} for name in ("read", "write")]
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "read"}]}
    request = ResponsesRequest.model_validate({"input": "Hi", "tools": tools, "tool_choice": choice})
    assert [tool["function"]["name"] for tool in request.functions()] == ["read"]
    assert request.chosen_tool == "required"


def turn_of(**fields: Any) -> Turn:
    given: dict[str, Any] = {
        "completion_id": "resp_1",
        "status": Turn.Status.SERVED,
        "prompt_ids": [1, 2, 3],
        "response_ids": [4, 5, 6, 7, 8, 9, 10],
        "cached_tokens": 2,
        "sampling": {"temperature": 0.7, "top_p": 1.0},
        "checkpoint": Checkpoint(number=0),
        "message": MESSAGE,
        "finish_reason": "tool_calls",
    }
    return Turn(**given | fields)


@pytest.mark.parametrize("summed_up", [False, True])
def test_a_stream_adds_up_to_the_whole_answer(summed_up):
    kept, echo = turn_of(), {"metadata": {}}
    encoder = ResponseEvents(kept, echo, summed_up=summed_up)
    sent = told([encoder.start(), *(encoder.piece(0, one) for one in REPLY), encoder.end()])
    assert [event["sequence_number"] for event in sent] == list(range(len(sent)))
    done = [event["item"] for event in sent if event["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in sent if event["type"] == "response.output_item.added"] == [0, 1, 2, 3]
    last = sent[-1]["response"]
    whole = answer(kept, echo, summed_up=summed_up, thinking=encoder.thinking)
    assert done == last["output"] == whole["output"]
    assert last["usage"] == whole["usage"]
    assert last["usage"]["input_tokens_details"]["cached_tokens"] == 2
    assert last["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert last["status"] == whole["status"] == "completed"
    deltas = {}
    for event in sent:
        if event["type"].endswith(".delta"):
            deltas[event["item_id"]] = deltas.get(event["item_id"], "") + event["delta"]
    thought = "response.reasoning_summary_text.delta" if summed_up else "response.reasoning_text.delta"
    assert thought in {event["type"] for event in sent}
    assert list(deltas.values()) == ["Hm.", "Let me look.", '{"city": "Paris"}', "{}"]
    assert list(deltas) == [item["id"] for item in whole["output"]]


def test_what_waits_is_kept_alive_by_events_that_every_client_knows():
    encoder = ResponseEvents(turn_of(), {}, summed_up=False)
    encoder.start()
    assert [event["type"] for event in told([encoder.piece(0, ReplyDelta())])] == ["response.in_progress"]
    encoder.piece(0, REPLY[0])
    (waiting,) = told([encoder.piece(0, ReplyDelta())])
    assert (waiting["type"], waiting["delta"]) == ("response.reasoning_text.delta", "")


def test_a_reply_of_nothing_is_an_empty_message():
    encoder = ResponseEvents(turn_of(), {}, summed_up=False)
    encoder.piece(0, ReplyDelta((), (4,), finish_reason="stop"))
    sent = told([encoder.end()])
    assert sent[-1]["response"]["output"][0]["content"][0]["text"] == ""
    kept = answer(turn_of(message={"role": "assistant", "content": ""}, finish_reason="stop"), {})
    assert kept["output"] == sent[-1]["response"]["output"]


def test_a_failure_keeps_what_was_said():
    encoder = ResponseEvents(turn_of(), {}, summed_up=False)
    encoder.piece(0, REPLY[0])
    failed = told([encoder.fail(TalkbackError("It broke."))])[-1]
    assert failed["type"] == "response.failed"
    assert failed["response"]["error"] == {"code": "internal_error", "message": "It broke."}
    assert failed["response"]["output"][0]["status"] == "incomplete"


@pytest.fixture
def ask(async_client, key):
    """Send a body to the Responses' door, with Ana's key."""

    async def send(body: Any, path: str = "/v1/responses") -> Any:
        headers = {"Authorization": f"Bearer {key.secret}"}
        content = body if isinstance(body, str) else json.dumps(body)
        return await async_client.post(path, content, "application/json", headers=headers)

    return send


@pytest.mark.parametrize("body", ["{", "[]", "{}", '{"input": 3}', '{"input": [["Hi"]]}', '{"input": [{"type": []}]}'])
async def test_every_refusal_is_in_openais_shape(ask, engine, body):
    response = await ask(body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]
    assert not await Turn.objects.aexists()


async def test_an_items_reference_is_the_item_itself(ask, engine):
    engine.says("Hello, captain.")
    first = (await ask({"input": "Hi"})).json()
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    await ask({"input": [{"role": "user", "content": "Hi"}, reference, {"role": "user", "content": "Bye"}]})
    one, two = [turn async for turn in Turn.objects.order_by("position").select_related("follows")]
    assert [said["content"] for said in two.messages] == ["Hi", "Hello, captain.", "Bye"]
    assert two.follows == one
    second = {
        "type": "item_reference",
        "id": reference["id"] + "_1",
    }  # as a stream may have named the words after a call
    more = [{"role": "user", "content": "Hi"}, reference, second, {"role": "user", "content": "Bye again"}]
    assert (await ask({"input": more})).status_code == 200
    assert (await Turn.objects.alatest("created_at")).messages[1]["content"] == "Hello, captain."
    unknown = await ask(
        {"input": [{"type": "item_reference", "id": "msg_unknown"}, {"role": "user", "content": "Bye"}]}
    )
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "response_not_found")


async def test_an_answer_is_this_keys_alone(ask, engine, ana, async_client):
    engine.says("Hello, captain.")
    answer = (await ask({"input": "Hi"})).json()
    _, secret = await sync_to_async(ApiKey.objects.issue)(ana, "phone")
    headers = {"Authorization": f"Bearer {secret}"}
    read = await async_client.get(f"/v1/responses/{answer['id']}", headers=headers)
    stopped = await async_client.post(f"/v1/responses/{answer['id']}/cancel", headers=headers)
    for refused in (read, stopped):
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "response_not_found")


async def test_a_reply_that_is_being_written_cannot_be_continued_yet(ask, engine):
    engine.says("Hello, captain.")
    first = (await ask({"input": "Hi"})).json()
    await Turn.objects.all().aupdate(status=Turn.Status.ANSWERING)
    second = await ask({"input": "Bye", "previous_response_id": first["id"]})
    assert (second.status_code, second.json()["error"]["code"]) == (409, "reply_unfinished")


async def test_two_answers_to_one_reply_are_two_branches_and_the_first_is_what_came_back(ask, engine):
    engine.says("Hello.")
    first = (await ask({"input": "Hi"})).json()
    for words in ("Bye", "Stay"):
        await ask({"input": words, "previous_response_id": first["id"]})
    one, two, three = [turn async for turn in Turn.objects.order_by("position").select_related("follows")]
    assert two.follows == three.follows == one
    assert [said["content"] for said in one.next_state] == ["Bye"]
    assert await Session.objects.acount() == 1


async def test_the_id_says_what_is_continued_where_histories_are_alike(ask, engine):
    engine.says("Hello.", times=2)
    replies = [(await ask({"input": "Hi"})).json() for _ in range(2)]
    await ask({"input": "Bye", "previous_response_id": replies[0]["id"]})
    *_, last = [turn async for turn in Turn.objects.order_by("created_at").select_related("follows")]
    assert last.follows.completion_id == replies[0]["id"]
