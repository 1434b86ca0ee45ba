"""Calls that are one line: read by the tool's schema, shown again as they were written, told from words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tiny import write_tiny_model
from chat.rendering.calling import form
from chat.rendering.model_output import Reader
from chat.rendering.renderer import Renderer
from environments.worlds.till import TOOLS as TILL
from lab.worlds.templates import compact


def tool(name, **kinds):
    properties = {field: {"type": kind} if kind else {} for field, kind in kinds.items()}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    *TILL,
    tool("find", text="string", most="integer", within=["string", "null"], exact="boolean"),
    tool("say", count="integer", words="string"),
    tool("set", key="string", value=None),
    tool("wait"),
]
ASKED = [{"role": "system", "content": "You help."}, {"role": "user", "content": "What do these cost?"}]


@pytest.fixture(scope="module")
def renderer(tmp_path_factory):
    folder = write_tiny_model(tmp_path_factory.mktemp("model") / "compact")
    (folder / "chat_template.jinja").write_text(compact())
    return Renderer(folder)


def message_of(*chunks, opened=""):
    reader = Reader(style="compact", tools=TOOLS, opened=opened)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)] + reader.end()
    message = reader.message
    assert "".join(p.text for p in pieces if p.kind == "content") == (message["content"] or "")
    told = ["".join(p.text for p in pieces if p.kind == "arguments" and p.index == n) for n in range(9)]
    calls = message.get("tool_calls", [])
    assert told[: len(calls)] == [call["function"]["arguments"] for call in calls]  # a stream says the same
    return message, reader.marks


def calls_of(*chunks, opened=""):
    message, _ = message_of(*chunks, opened=opened)
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls", [])
    ]


def test_the_template_teaches_it(renderer):
    assert (renderer.style, renderer.takes_tools) == ("compact", True)


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("add 3 4", "add", {"a": 3, "b": 4}),
        ("price apple", "price", {"item": "apple"}),
        ("price 7", "price", {"item": "7"}),  # a string by its schema
        (" answer  41 ", "answer", {"value": 41}),  # a tokenizer of whole words leaves blanks
        ("add three 4", "add", {"a": "three", "b": 4}),  # the tool will say that it is no number
        ("add 3", "add", {"a": 3}),
        ("add 3 4 5", "add", {"a": 3, "b": "4 5"}),  # the last one takes the rest
        ("say 2 good day to you", "say", {"count": 2, "words": "good day to you"}),
        ('find "good day" 3 null true', "find", {"text": "good day", "most": 3, "within": None, "exact": True}),
        ("find day null here", "find", {"text": "day", "within": "here"}),  # no number, so it is left out
        ('set a {"b": [1, 2]}', "set", {"key": "a", "value": {"b": [1, 2]}}),
        ("wait", "wait", {}),
    ],
)
def test_words_stand_for_the_parameters_in_their_order(line, name, arguments):
    for cut in ([f"<call>{line}"], [*f"<call>{line}"], [f"<call>{line}\n"]):
        assert calls_of(*cut) == [(name, arguments)]


def test_several_calls_and_words_around_them():
    text = "Let me see.\n<call>price apple\n<call>price egg<call>wait\nThat is it."
    for cut in ([text], [*text]):
        message, marks = message_of(*cut)
        assert message["content"] == "Let me see.That is it."
        assert [call["function"]["name"] for call in message["tool_calls"]] == ["price", "price", "wait"]
        assert marks == []


@pytest.mark.parametrize("text", ["<call>sub 3 4", "<call>", "<call>\n", "a <call>wait for it", "<calls>add 3 4"])
def test_what_names_no_tool_is_words(text):
    for cut in ([text], [*text]):
        assert message_of(*cut)[0] == {"role": "assistant", "content": text}


def test_a_forced_call_is_an_object_and_one_call_ends_with_the_next(renderer):
    held = form(renderer.style, renderer.opening, TOOLS, {"tool_choice": "=add"})
    assert held.opened == "<call>"
    assert calls_of('{"name": "add", "arguments": {"a": 1, "b": 2}}', opened=held.opened) == [("add", {"a": 1, "b": 2})]
    free = form(renderer.style, renderer.opening, TOOLS, {"parallel_tool_calls": False})
    assert (free.schema, free.stop) == ("", ("\n<call>",))


WRITTEN = [
    "<call>price apple",
    "<call>add 3 4",
    "<call>add three 4",
    "<call>add 3",
    "<call>add 3 4 5",
    "<call>answer -7",
    "<call>say 2 good day to you",
    '<call>find "good day" 3 null true',
    "<call>find day null here",
    '<call>set a {"b": [1, 2]}',
    "<call>wait",
    "<call>price apple\n<call>price egg",
    "Let me see.\n<call>wait",
    "<call>sub 3 4",
    "It is 41.",
]


@pytest.mark.parametrize("written", WRITTEN)
def test_the_next_prompt_begins_with_this_prompt_and_what_the_model_wrote(renderer, written):
    """What a reply is read as is laid out as it was written, token by token: only then are the turns of an attempt one
    row to learn."""
    prompt = renderer.prompt_ids(ASKED, TOOLS)
    response = renderer._tokenizer.encode(f"{written}<|im_end|>").ids
    message, _ = message_of(renderer.decode(response))
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "12"} for call in message.get("tool_calls", [])
    ] or [{"role": "user", "content": "Call a tool."}]
    # A JSON round trip, as a client's.
    following = renderer.prompt_ids([*ASKED, json.loads(json.dumps(message)), *results], TOOLS)
    assert following[: len(prompt) + len(response)] == [*prompt, *response]


TEXTS = st.text(st.sampled_from('ab 1"\\{}[],\n<call>né'), max_size=8)
JSONS = st.recursive(st.integers() | st.booleans() | st.none(), lambda one: st.lists(one, max_size=2), max_leaves=4)


@given(
    text=TEXTS, most=st.none() | st.integers(), within=st.none() | TEXTS, words=TEXTS, count=st.integers(), value=JSONS
)
def test_whatever_is_called_is_read_as_it_was_laid_out(renderer, text, most, within, words, count, value):
    asked = {
        "find": {"text": text, "within": within, "exact": True} | ({} if most is None else {"most": most}),
        "say": {"words": words, "count": count},  # in an order of the client's own
        "set": {"key": text, "value": value},
    }
    given_calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for name, arguments in asked.items()
    ]
    before = renderer.prompt_ids(ASKED, TOOLS)
    answer = {"role": "assistant", "content": None, "tool_calls": given_calls}
    ids = renderer.prompt_ids([*ASKED, answer], TOOLS, reply=False)
    assert ids[: len(before)] == before
    written = renderer.decode(ids[len(before) :]).removesuffix("\n")
    assert dict(calls_of(written)) == asked
