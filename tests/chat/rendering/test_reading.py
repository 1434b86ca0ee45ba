"""Whatever a model writes, and however it comes: words, reasoning and calls, and nothing of it lost."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat.rendering.calls import refuse
from chat.rendering.model_output import LONG, MOST_BROKEN, Reader


def tool(name, **properties):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    tool("read", path={"type": "string"}, lines={"type": "integer"}, tail={"type": ["string", "null"]}),
    tool("exec", command={"type": "string"}, wait={"type": "boolean"}, more={}),
]
STYLES = ("hermes", "xml", "llama", "mistral", "compact")


def read(*chunks, style="hermes", tools=TOOLS, opened="", holds=False):
    reader = Reader(style=style, tools=tools, opened=opened, holds=holds)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)] + reader.end()
    return reader, pieces


def calls(reader):
    """Names and arguments, as a client reads them."""
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in reader.message.get("tool_calls", ())
    ]


def added_up(pieces):
    """The message that a client makes of the pieces."""
    message = {"role": "assistant", "content": "".join(p.text for p in pieces if p.kind == "content")}
    if reasoning := "".join(p.text for p in pieces if p.kind == "reasoning"):
        message["reasoning_content"] = reasoning
    opened = [p for p in pieces if p.kind == "call"]
    if opened:
        message["content"] = message["content"] or None
        message["tool_calls"] = [
            {
                "id": p.id,
                "type": "function",
                "function": {
                    "name": p.name,
                    "arguments": "".join(a.text for a in pieces if a.kind == "arguments" and a.index == p.index),
                },
            }
            for p in opened
        ]
    return message


def is_json(text):
    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


def without_ids(message):
    return json.loads(re.sub(r"call_[0-9a-f]{24}", "call_", json.dumps(message)))


# Words and reasoning


def test_words_are_given_on_as_they_come():
    reader = Reader()
    assert [[p.text for p in reader.feed(chunk)] for chunk in ("He", "llo ", "you")] == [["He"], ["llo "], ["you"]]
    assert reader.message == {"role": "assistant", "content": "Hello you"}


@pytest.mark.parametrize("text", ["", " ", "\n x \n", "a < b", "<", "<tool", "{", "<think", "a <think>b</think>"])
@pytest.mark.parametrize("tools", [(), TOOLS])
def test_words_stay_as_they_are(text, tools):
    assert read(*text, tools=tools)[0].message == {"role": "assistant", "content": text}


def test_without_tools_a_call_is_words():
    text = 'Write <tool_call>\n{"name": "read", "arguments": {}}\n</tool_call> like this.'
    assert read(text, tools=())[0].message == {"role": "assistant", "content": text}


def test_thoughts_are_told_from_words():
    assert read(*"<think>\nTwo and two.\n</think>\n\nFour.")[0].message == {
        "role": "assistant",
        "content": "Four.",
        "reasoning_content": "Two and two.",
    }


def test_thoughts_that_the_prompt_opened_are_thoughts():
    message = read("Two and two.\n</think>\n\nFour.", tools=(), opened="<think>\n")[0].message
    assert (message["reasoning_content"], message["content"]) == ("Two and two.", "Four.")


def test_thoughts_that_the_prompt_closed_are_over():
    assert read("Four.", opened="<think>\n\n</think>\n\n")[0].message == {"role": "assistant", "content": "Four."}


def test_thoughts_without_an_end_are_thoughts():
    message = read("<think>Two and", tools=())[0].message
    assert (message["reasoning_content"], message["content"]) == ("Two and", "")


# Calls

WRITTEN = {
    "hermes": '<tool_call>\n{"name": "read", "arguments": {"path": "a b", "lines": 3}}\n</tool_call>',
    "xml": "<tool_call>\n<function=read>\n<parameter=path>\na b\n</parameter>\n<parameter=lines>\n3\n</parameter>\n"
    "</function>\n</tool_call>",
    "llama": '{"name": "read", "parameters": {"path": "a b", "lines": 3}}',
    "mistral": '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a b", "lines": 3}}]',
    "compact": '<call>read "a b" 3',
}
ALSO = [
    ("llama", '<|python_tag|>{"name": "read", "parameters": {"path": "a b", "lines": 3}}'),
    ("llama", '{"type": "function", "name": "read", "parameters": {"path": "a b", "lines": 3}}'),
    ("mistral", '[TOOL_CALLS]read{"path": "a b", "lines": 3}'),
    ("mistral", '[TOOL_CALLS]read[CALL_ID]abc123def[ARGS]{"path": "a b", "lines": 3}'),
    ("hermes", '<tool_call>{"arguments": {"path": "a b", "lines": 3}, "name": "read"}</tool_call>'),
    ("hermes", '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"a b\\", \\"lines\\": 3}"}</tool_call>'),
    ("hermes", WRITTEN["xml"]),
    ("xml", WRITTEN["hermes"]),
    ("hermes", '<tool_call>\n{"name": "read", "arguments": {"path": "a b", "lines": 3}}'),  # its closer is missing
]


@pytest.mark.parametrize(("style", "text"), [*WRITTEN.items(), *ALSO])
def test_a_call_is_structured(style, text):
    for chunks in ([text], text):
        reader, pieces = read(*chunks, style=style)
        assert calls(reader) == [("read", {"path": "a b", "lines": 3})]
        assert reader.message["content"] is None
        assert reader.marks == []
        assert pieces[0].kind == "call"


@pytest.mark.parametrize("style", STYLES)
def test_parallel_calls_have_their_own_ids_and_places(style):
    one, other = WRITTEN[style], WRITTEN[style].replace("read", "exec")
    both = f"{one[:-1]},{other.removeprefix('[TOOL_CALLS][')}" if style == "mistral" else f"{one}\n{other}"
    reader, pieces = read(*both, style=style)
    assert [name for name, _ in calls(reader)] == ["read", "exec"]
    ids = [call["id"] for call in reader.message["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", id) for id in ids)
    assert {piece.index for piece in pieces if piece.kind == "arguments"} == {0, 1}


def test_words_around_calls_are_kept():
    reader, _ = read(*f"<think>Hm.</think>Let me look.\n{WRITTEN['hermes']}\nThat was it. ")
    assert reader.message["content"] == "Let me look.That was it. "
    assert reader.message["reasoning_content"] == "Hm."
    assert calls(reader)[0][0] == "read"


def test_arguments_are_the_models_own_text():
    odd = '{ "path":"\\u00e9" ,  "lines" : 3e0 }'
    reader, _ = read(f'<tool_call>{{"name": "read", "arguments": {odd}}}</tool_call>')
    assert reader.message["tool_calls"][0]["function"]["arguments"] == odd


def test_a_long_call_is_given_out_as_it_is_written():
    beginning = '<tool_call>\n{"name": "exec", "arguments": {"command": "' + "x" * LONG
    reader = Reader(style="hermes", tools=TOOLS)
    first = reader.feed(beginning)
    more = reader.feed("yyy")
    assert [piece.kind for piece in first[:2]] == ["call", "arguments"]
    assert first[0].name == "exec"
    assert [(piece.kind, piece.text) for piece in more] == [("arguments", "yyy")]
    reader.feed('"}}\n</tool_call>')
    reader.end()
    assert calls(reader) == [("exec", {"command": "x" * LONG + "yyy"})]


def test_a_long_text_parameter_is_given_out_as_it_is_written():
    reader = Reader(style="xml", tools=TOOLS)
    first = reader.feed("<tool_call>\n<function=exec>\n<parameter=command>\n" + "x" * LONG)
    more = reader.feed('say "hi"\n')
    assert [piece.kind for piece in first[:2]] == ["call", "arguments"]
    assert "".join(piece.text for piece in more) == 'say \\"hi\\"'  # the line break may belong to the tag
    reader.feed("</parameter>\n</function>\n</tool_call>")
    assert calls(reader) == [("exec", {"command": "x" * LONG + 'say "hi"'})]


def test_parameters_are_read_by_the_tools_schema():
    values = {"path": "3", "lines": "3", "tail": "null"}
    written = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    reader, _ = read(f"<tool_call>\n<function=read>\n{written}</function>\n</tool_call>", style="xml")
    assert calls(reader) == [("read", {"path": "3", "lines": 3, "tail": None})]
    reader, _ = read(
        "<tool_call><function=exec><parameter=wait>True</parameter><parameter=more>[1, {}]</parameter>"
        "<parameter=new>so so</parameter></function></tool_call>",
        style="xml",
    )
    assert calls(reader) == [("exec", {"wait": True, "more": [1, {}], "new": "so so"})]


def test_a_tag_within_a_string_ends_nothing():
    command = "echo '</tool_call><tool_call>{'"
    text = f"<tool_call>{json.dumps({'name': 'exec', 'arguments': {'command': command}})}</tool_call>"
    assert calls(read(*text)[0]) == [("exec", {"command": command})]


def test_a_line_break_within_a_string_is_mended():
    assert calls(read('<tool_call>{"name": "exec", "arguments": {"command": "a\nb"}}</tool_call>')[0]) == [
        ("exec", {"command": "a\nb"})
    ]


def test_a_call_to_a_tool_that_was_not_offered_is_returned():
    assert calls(read(WRITTEN["hermes"].replace("read", "fly"))[0])[0][0] == "fly"


def test_a_forced_call_is_read_from_where_the_prompt_opened_it():
    reader, pieces = read('{"name": "read", "arguments": {"path": "x"}}', opened="<tool_call>\n")
    assert calls(reader) == [("read", {"path": "x"})]
    assert [piece.kind for piece in pieces] == ["call", "arguments"]
    reader, _ = read('{"name": "read", "arguments": {}}', opened="<think>\n\n</think>\n\n<tool_call>\n")
    assert calls(reader) == [("read", {})]


# Calls that come to nothing

BROKEN = [
    ("hermes", '<tool_call>\n{"name": "read", "arguments": {"path": '),
    ("hermes", '<tool_call>\n{"name": "read", "arguments": {"path": }}\n</tool_call>'),
    ("hermes", '<tool_call>\n{"name": "read", "arguments": {"path": "x"}\n</tool_call> and words'),
    ("hermes", "<tool_call>\nread the file\n</tool_call>"),
    ("hermes", '<tool_call>{"path": "x"}</tool_call>'),
    ("hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "read", "arguments": {"lines": NaN}}</tool_call>'),
    ("hermes", '<tool_call>{"name": "read", "arguments": [1]}</tool_call>'),
    ("xml", "<tool_call>\n<function=read>\n<parameter=path>\nx"),
    ("xml", "<tool_call>\n<function=read>\nwords</function>"),
    ("llama", '{"name": "read", "parameters": {"path": '),
    ("mistral", '[TOOL_CALLS][{"name": "read", "arguments": '),
    ("mistral", "[TOOL_CALLS] and so on"),
]


@pytest.mark.parametrize(("style", "text"), BROKEN)
def test_a_call_that_cannot_be_read_is_returned_as_the_text_it_is(style, text):
    for chunks in ([text], text):
        reader, _ = read(*chunks, style=style)
        assert reader.message == {"role": "assistant", "content": text}
        assert reader.marks == ["call_unparsed"]


def test_a_call_behind_a_broken_one_is_still_read():
    reader, _ = read(f'<tool_call>{{"name": "read", {WRITTEN["hermes"]}')
    assert reader.message["content"] == '<tool_call>{"name": "read",'
    assert len(calls(reader)) == 1
    assert reader.marks == ["call_unparsed"]


def test_a_forced_call_that_was_cut_short_gives_back_what_was_written():
    reader, _ = read('{"name": "read", "argu', opened="<tool_call>\n")
    assert reader.message == {"role": "assistant", "content": '{"name": "read", "argu'}
    assert reader.marks == ["call_unparsed"]


LONG_BROKEN = [
    ("hermes", '<tool_call>{"name": "exec", "arguments": {"command": "' + "x" * LONG),
    ("hermes", '<tool_call>{"name": "exec", "arguments": {"command": "' + "x" * LONG + '", }}</tool_call>'),
    ("hermes", '<tool_call>{"name": "exec", "arguments": {"wait": NaN, "command": "' + "x" * LONG + '"}}</tool_call>'),
    ("xml", "<tool_call>\n<function=exec>\n<parameter=command>\n" + "x" * LONG),
    ("xml", "<tool_call>\n<function=exec>\n<parameter=command>\n" + "x" * LONG + "</parameter>\nno</function>"),
    ("llama", '{"name": "exec", "parameters": {"command": "' + "x" * LONG),
    ("mistral", '[TOOL_CALLS][{"name": "exec", "arguments": {"command": "' + "x" * LONG),
    ("mistral", '[TOOL_CALLS]exec{"command": "' + "x" * LONG + '" "wait"}'),
]


@pytest.mark.parametrize(("style", "text"), LONG_BROKEN)
def test_a_long_call_that_cannot_be_read_is_text_in_the_message_too(style, text):
    """What was given out of it by then cannot be taken back."""
    for chunks in ([text], text):
        reader, pieces = read(*chunks, style=style)
        assert reader.message == {"role": "assistant", "content": text}
        assert reader.marks == ["call_unparsed"]
        assert [piece.kind for piece in pieces[:2]] == ["call", "arguments"]


@pytest.mark.parametrize(("style", "text"), [*BROKEN, *LONG_BROKEN])
def test_a_reader_that_holds_calls_back_gives_out_no_call_that_breaks(style, text):
    for chunks in ([text], text):
        reader, pieces = read(*chunks, style=style, holds=True)
        assert reader.message == {"role": "assistant", "content": text} == added_up(pieces)
        assert reader.marks == ["call_unparsed"]


@pytest.mark.parametrize("holds", [True, False])
def test_a_long_call_with_whole_arguments_stays_one_whatever_stands_behind_them(holds):
    text = '<tool_call>{"name": "exec", "arguments": {"command": "' + "x" * LONG + '"}\n</tool_call>'
    for chunks in ([text], text):
        reader, pieces = read(*chunks, holds=holds)
        assert calls(reader) == [("exec", {"command": "x" * LONG})]
        assert added_up(pieces) == reader.message
        assert reader.marks == ["call_unparsed"]


def test_a_call_that_is_held_back_comes_in_one_piece():
    arguments = {"command": "x" * 3 * LONG}
    text = f"<tool_call>{json.dumps({'name': 'exec', 'arguments': arguments})}</tool_call>"
    reader, pieces = read(*text, holds=True)
    assert calls(reader) == [("exec", arguments)]
    assert [piece.kind for piece in pieces] == ["call", "arguments"]


def test_a_call_beside_one_that_broke_late_keeps_the_id_that_was_given_out():
    reader, pieces = read(*(WRITTEN["hermes"] + LONG_BROKEN[0][1]))
    (call,) = reader.message["tool_calls"]
    assert call["id"] == pieces[0].id
    assert reader.message["content"] == LONG_BROKEN[0][1]


def test_an_answer_in_json_is_no_call():
    for text in ('{"name": "Bob", "age": 3}', '{"sum": 4}', json.dumps({"long": "x" * 2 * LONG})):
        reader, _ = read(*text, style="llama")
        assert reader.message == {"role": "assistant", "content": text}
        assert reader.marks == []


def test_a_flood_of_broken_calls_is_text():
    text = '<tool_call>{"' * (MOST_BROKEN + 1) + WRITTEN["hermes"]
    reader, _ = read(text)
    assert reader.message == {"role": "assistant", "content": text}


# However it is cut

PARTS = [
    *WRITTEN.values(),
    *(text for _, text in ALSO),
    *(text for _, text in BROKEN),
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "<function=", "{", "}"),
    *("<parameter=path>", "</parameter>", "</function>", '"', "\\", "\n", "words", "é", ", ", "]", "x" * LONG),
    '<tool_call>{"name": "exec", "arguments": {"command": "' + "y" * LONG,
    "<tool_call><function=exec><parameter=command>\n" + "y" * LONG,
    '{"name": "exec", "parameters": {"command": "' + "y" * LONG + '"}, "more": {}}',
    *(text for _, text in LONG_BROKEN),
]
replies = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=5)), max_size=6).map("".join)


@settings(max_examples=400, deadline=None)
@given(
    text=replies,
    style=st.sampled_from(STYLES),
    opened=st.sampled_from(["", "<think>\n", "<tool_call>\n"]),
    data=st.data(),
)
def test_how_a_reply_is_cut_changes_nothing_of_it(text, style, opened, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole, _ = read(text, style=style, opened=opened)
    for cut in (chunks, text):
        for holds in (True, False):
            reader, pieces = read(*cut, style=style, opened=opened, holds=holds)
            assert without_ids(reader.message) == without_ids(whole.message)
            assert reader.marks == whole.marks
            assert all(is_json(call["function"]["arguments"]) for call in reader.message.get("tool_calls", ()))
            if added_up(pieces) != reader.message:  # pieces of a call were given out that then broke
                assert not holds
                assert reader.marks == ["call_unparsed"]
                given = added_up(pieces)["tool_calls"]
                assert not all(is_json(call["function"]["arguments"]) for call in given)


@settings(max_examples=400, deadline=None)
@given(parts=st.lists(st.sampled_from(PARTS), max_size=6), style=st.sampled_from(STYLES))
def test_nothing_of_a_reply_is_lost(parts, style):
    """Words written anywhere between its parts are in the message, in the order in which they were written."""
    words = [f"word{n}" for n in range(len(parts) + 1)]
    text = words[0] + "".join(part + word for part, word in zip(parts, words[1:], strict=True))
    message = read(text, style=style)[0].message
    said = json.dumps(message)
    assert all(word in said for word in words)
    content = [word for word in re.findall(r"word\d", message["content"] or "") if word in words]
    assert content == sorted(content)
