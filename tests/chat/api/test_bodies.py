"""What clients send in fact: histories, ranges, parts of messages and begun replies, alike at every door."""

from __future__ import annotations

import pytest

from chat.models import Turn
from tests.chat.api.bodies import CHAT, COUNT, DOORS, MESSAGES, RESPONSES, refused
from tests.chat.conftest import assistant, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


ODD_CALLS = [
    {"id": None, "type": "function", "function": {"name": "look", "arguments": "{}"}},
    {"id": "", "function": {"name": "", "arguments": ""}},
    {"id": "c" * 600, "type": None, "function": {"name": "n" * 600, "arguments": None}},
    {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
    {"id": "c", "type": "something", "function": {"name": None, "arguments": {"a": 1}}},
    {"id": "c", "type": "function", "function": {"name": "look", "arguments": [1]}},
    {"id": "c", "type": "function", "function": None},
]


@pytest.mark.parametrize("call", ODD_CALLS)
async def test_a_past_call_of_any_id_type_and_name_is_taken(send, call):
    said = [
        user("Hi"),
        assistant(None) | {"tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "b"},
    ]
    first = await send(CHAT, {"messages": said})
    assert first.status_code == 200, first.content
    reply = first.json()["choices"][0]["message"]
    second = await send(CHAT, {"messages": [*said, reply, user("Go on.")]})
    assert second.status_code == 200, second.content
    one, two = [turn async for turn in Turn.objects.order_by("position").select_related("follows")]
    assert two.follows == one  # it is one conversation


async def test_a_past_custom_call_says_what_it_said(send):
    said = [user("Hi"), assistant(None) | {"tool_calls": [ODD_CALLS[3]]}, {"role": "tool", "content": None}]
    assert (await send(CHAT, {"messages": said})).status_code == 200
    (call,) = (await Turn.objects.aget()).messages[1]["tool_calls"]
    assert call["function"] == {"name": "patch", "arguments": '{"input": "*** Begin"}'}


async def test_openais_old_words_for_a_call_are_read(send):
    said = [
        user("Hi"),
        assistant(None) | {"function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "Rain."},
    ]
    assert (await send(CHAT, {"messages": said})).status_code == 200
    kept = (await Turn.objects.aget()).messages
    assert kept[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert (kept[2]["role"], kept[2]["content"]) == ("tool", "Rain.")


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "function_call", "call_id": None, "name": None, "arguments": None}, {"type": "function_call_output"}],
        [
            {"type": "function_call", "call_id": "", "name": "", "arguments": {"a": 1}},
            {"type": "function_call_output", "call_id": "", "output": None},
        ],
        [
            {"type": "function_call", "call_id": "c" * 600, "name": "n" * 600, "arguments": ""},
            {"type": "function_call_output", "call_id": "c" * 600, "output": "b"},
        ],
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "b"},
        ],
        [{"type": "message", "role": "assistant", "content": None}, {"role": "user", "content": "Go on."}],
    ],
)
async def test_a_past_item_of_any_id_and_name_is_taken(send, items):
    answer = await send(RESPONSES, {"input": [user("Hi"), *items]})
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "id": None, "name": None, "input": None},
        {"type": "tool_use", "id": "", "name": "", "input": '{"cut'},
        {"type": "tool_use", "id": "c" * 600, "name": "n" * 600, "input": [1]},
        {"type": "thinking", "thinking": None},
    ],
)
@pytest.mark.parametrize("path", [MESSAGES, COUNT])
async def test_a_past_block_of_any_id_and_name_is_taken(send, path, block):
    result = {"type": "tool_result", "tool_use_id": block.get("id"), "content": None}
    answer = await send(path, {"messages": [user("Hi"), assistant([block]), user([result])]})
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("more", [{"top_p": 0}, {"top_p": 1}, {"temperature": 0}, {"temperature": 2}, {"top_k": 0}])
async def test_ranges_are_those_of_openai_and_anthropic(send, path, more):
    assert (await send(path, more)).status_code == 200


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty"])
@pytest.mark.parametrize("value", [-2, 0, 2])
async def test_penalties_reach_to_both_ends(send, name, value):
    assert (await send(CHAT, {name: value})).status_code == 200


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("more", [{"top_p": -0.1}, {"top_p": 1.1}, {"temperature": -1}, {"temperature": 2.1}])
async def test_what_is_beyond_a_range_is_refused_by_name(send, path, more):
    status, _, _, message = await refused(await send(path, more))
    assert status == 400
    assert message.startswith(f"{next(iter(more))}: ")


@pytest.mark.parametrize(
    ("path", "more", "place"),
    [
        (CHAT, {"messages": [user([{"type": "text", "text": None}])]}, "messages.0.content.0.text"),
        (
            CHAT,
            {"messages": [user("Hi"), user([{"type": "text", "text": "a"}, {"type": "text"}])]},
            "messages.1.content.1.text",
        ),
        (CHAT, {"messages": [user([{"type": "text", "text": 5}])]}, "messages.0.content.0.text"),
        (CHAT, {"messages": [user([{"type": "text", "text": {"value": "a"}}])]}, "messages.0.content.0.text"),
        (CHAT, {"messages": [user([{"text": "a"}])]}, "messages.0.content.0.type"),
        (CHAT, {"messages": [user([None])]}, "messages.0.content.0"),
        (CHAT, {"messages": [user("Hi"), user(None)]}, "messages.1.content"),
        (
            CHAT,
            {"messages": [user([{"type": "text", "text": "a"}, {"type": "image_url"}])]},
            "messages.0.content.1.type",
        ),
        (RESPONSES, {"input": [user([{"type": "input_text", "text": None}])]}, "input.0.content.0.text"),
        (RESPONSES, {"input": [user("Hi"), user([{"type": "input_image"}])]}, "input.1.content.0.type"),
        (
            RESPONSES,
            {"input": [{"type": "function_call_output", "output": [{"type": "input_file"}]}]},
            "input.0.output.0.type",
        ),
        (RESPONSES, {"input": [user("Hi"), {"type": "web_search_call"}]}, "input.1.type"),
        (RESPONSES, {"input": [user(None)]}, "input.0.content"),
        (RESPONSES, {"input": [{"role": None, "content": "Hi"}]}, "input.0.role"),
        (MESSAGES, {"messages": [user([{"type": "text", "text": None}])]}, "messages.0.content.0.text"),
        (MESSAGES, {"messages": [user(None)]}, "messages.0.content"),
        (MESSAGES, {"system": [{"type": "text", "text": None}]}, "system.0.text"),
    ],
)
async def test_a_part_that_cannot_be_read_is_named(send, path, more, place):
    status, _, param, message = await refused(await send(path, more))
    assert status == 400
    if path == MESSAGES:  # Anthropic's errors have no param
        assert message.startswith(f"{place}: ")
    else:
        assert param == place
    assert "cannot be used" not in message or place.endswith(".type")


@pytest.mark.parametrize("more", [{"modalities": 5}, {"modalities": [{}]}, {"modalities": "audio"}])
async def test_odd_modalities_are_refused_by_name(send, more):
    assert (await refused(await send(CHAT, more)))[:3] == (400, "unsupported_parameter", "modalities")


BEGUN = [user("Capital of France? One word."), assistant("The capital of France is")]


@pytest.mark.parametrize(
    ("path", "more", "place"),
    [
        (CHAT, {"messages": BEGUN}, "messages"),
        (
            CHAT,
            {"messages": BEGUN, "continue_final_message": True, "add_generation_prompt": False},
            "continue_final_message",
        ),
        (CHAT, {"add_generation_prompt": False}, "add_generation_prompt"),
        (CHAT, {"messages": [BEGUN[0], BEGUN[1] | {"prefix": True}]}, "messages"),
        (RESPONSES, {"input": BEGUN}, "input"),
        (RESPONSES, {"continue_final_message": True}, "continue_final_message"),
        (MESSAGES, {"messages": BEGUN}, "messages"),
        (MESSAGES, {"continue_final_message": True}, "continue_final_message"),
    ],
)
async def test_a_reply_that_was_begun_is_refused_by_name(send, engine, path, more, place):
    """What the client began is not the model's own: it would be learned from as if it were."""
    status, code, param, message = await refused(await send(path, more))
    assert status == 400
    assert code in ("invalid_messages", "unsupported_parameter")
    assert path == MESSAGES or param == place
    assert "reply cannot be begun for the model" in message
    assert not engine.calls
    assert not await Turn.objects.aexists()


@pytest.mark.parametrize("path", DOORS)
async def test_words_of_the_system_behind_the_last_reply_begin_none(send, path):
    said = [user("Hi"), assistant("Hello."), {"role": "system", "content": "Say more."}]
    assert (await send(path, {"input" if path == RESPONSES else "messages": said})).status_code == 200


@pytest.mark.parametrize(
    "messages",
    [
        [user("hi"), assistant("hello")],
        [assistant("hello")],
        [assistant("hello"), user("hi")],
        [user("hi"), assistant([{"type": "tool_use", "id": "a", "name": "look", "input": {}}])],
        [user([{"type": "tool_result", "tool_use_id": "a", "content": "b"}])],
        [user([])],
        [user("hi"), assistant([])],
        [{"role": "system", "content": "Be brief."}],
    ],
)
async def test_any_conversation_is_counted(send, messages):
    answer = await send(COUNT, {"messages": messages})
    assert answer.status_code == 200, answer.content
    assert answer.json()["input_tokens"] > 0


async def test_a_conversation_grows_with_each_message_that_is_counted(send):
    """A client that cuts a history to a length counts its beginnings."""
    said = [user("hi"), assistant("hello"), user("and now?"), assistant("still here")]
    counted = [(await send(COUNT, {"messages": said[:n]})).json()["input_tokens"] for n in (1, 2, 3, 4)]
    assert counted == sorted(set(counted))
