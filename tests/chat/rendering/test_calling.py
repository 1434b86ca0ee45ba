"""Tools, calls and results laid out for any model, and calls that the model is made to write."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tiny import TEMPLATE, write_tiny_model
from chat.rendering.calling import STYLES, ToolMissing, forced, form, style_of
from chat.rendering.model_output import Reader
from chat.rendering.renderer import MessagesRefused, Renderer
from gpu_workers.schemas.keywords import SchemaRefused
from tests.chat.rendering.templates import DEEPSEEK, GEMMA, LLAMA3, MISTRAL, QWEN3, QWEN35

TEMPLATES = {
    "plain": TEMPLATE,
    "qwen3": QWEN3,
    "qwen3.5": QWEN35,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "gemma": GEMMA,
    "deepseek": DEEPSEEK,
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"To {name}.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    for name in ("read", "write")
]


def call(id, name, arguments):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


# What a real client sends: parallel calls, ids of its own making, null contents, a message of a user behind another's.
CONVERSATION = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Read a and b."},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Two files.",
        "tool_calls": [call("call1", "read", '{"path":"a"}'), call("call2", "read", '{"path":"b"}')],
    },
    {"role": "tool", "tool_call_id": "call1", "content": "Alpha"},
    {"role": "tool", "tool_call_id": "call2", "content": "Beta"},
    {"role": "developer", "content": "Be brief."},
    {"role": "assistant", "content": "Alpha and Beta.", "tool_calls": None},
    {"role": "user", "content": "And c?"},
    {"role": "user", "content": "Please."},
]


@pytest.fixture(scope="module")
def renderers(tmp_path_factory):
    made = {}
    for name, template in TEMPLATES.items():
        folder = write_tiny_model(tmp_path_factory.mktemp("model") / name)
        (folder / "chat_template.jinja").write_text(template)
        made[name] = Renderer(folder)
    return made


def laid_out(renderer, messages, tools=None, opened=""):
    ids = renderer.prompt_ids(messages, tools, opened)
    return renderer._tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_client_sends_can_be_laid_out_for_any_model(renderers, name):
    text = laid_out(renderers[name], CONVERSATION, TOOLS)
    said = ["You help.", "Read a and b.", '"a"', "Alpha", "Beta", "Be brief.", "Alpha and Beta.", "And c?", "Please."]
    if name == "qwen3.5":
        said[2] = "<parameter=path>\na\n</parameter>"
    places = [text.find(words) for words in said if words != "You help."]
    assert -1 not in places
    assert "You help." in text
    assert all(tool["function"]["description"] in text for tool in TOOLS)


@pytest.mark.parametrize(("name", "style"), {"plain": "hermes", "qwen3": "hermes", "qwen3.5": "xml"}.items())
def test_a_reply_read_and_shown_again_is_what_the_model_wrote(renderers, name, style):
    renderer = renderers[name]
    assert renderer.style == style
    calls = [call("call1", "read", '{"path": "a b"}'), call("call2", "write", '{"path": "c"}')]
    asked = [{"role": "user", "content": "Hi"}]
    answer = {"role": "assistant", "content": "Let me look.", "tool_calls": calls}
    before, after = laid_out(renderer, asked), laid_out(renderer, [*asked, answer, *asked])
    written = after[len(before.removesuffix(renderer.opening)) :].partition("<|im_end|>")[0]

    reader = Reader(style=renderer.style, tools=TOOLS)
    reader.feed(written)
    reader.end()

    assert reader.message["content"] == "Let me look."
    assert [one["function"] for one in reader.message["tool_calls"]] == [one["function"] for one in calls]


def test_styles_are_known_by_their_templates(renderers):
    assert {name: renderer.style for name, renderer in renderers.items()} == {
        "plain": "hermes",
        "qwen3": "hermes",
        "qwen3.5": "xml",
        "llama3": "llama",
        "mistral": "mistral",
        "gemma": "hermes",
        "deepseek": "hermes",
    }


def test_a_way_of_calling_that_is_not_read_here_is_not_taught_to_the_model():
    assert style_of("{{ tools }} <|tool_call_begin|>") == style_of("<tool_call>{name}<arg_key>") == ""


def test_a_message_that_the_template_would_pass_over_is_said_by_the_user(renderers):
    text = laid_out(renderers["deepseek"], [*CONVERSATION[:2], {"role": "system", "content": "Be brief."}])
    assert text.startswith("You help.")
    assert "<|im_start|>user\nBe brief.<|im_end|>" in text


def test_what_the_system_says_begins_the_users_words_where_there_is_no_system(renderers):
    text = laid_out(renderers["gemma"], CONVERSATION[:2])
    assert text == "<|im_start|>user\nYou help.\n\nRead a and b.<|im_end|>\n<|im_start|>model\n"


def test_tools_stand_in_the_system_message_where_the_template_has_no_place(renderers):
    plain = renderers["plain"]
    assert not plain.takes_tools
    text = laid_out(plain, [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hi"}], TOOLS)
    assert text.startswith("<|im_start|>system\nYou help.\n\n# Tools\n")
    assert all(json.dumps(tool) in text for tool in TOOLS)
    assert laid_out(plain, [{"role": "user", "content": "Hi"}], TOOLS).startswith("<|im_start|>system\n# Tools\n")


def test_calls_and_results_are_words_where_the_template_has_no_place(renderers):
    assert laid_out(renderers["plain"], CONVERSATION[2:5]) == (
        "<|im_start|>assistant\n"
        '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read", "arguments": {"path": "b"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nAlpha\n</tool_response>\n<tool_response>\nBeta\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_parallel_calls_are_told_one_by_one_where_the_template_wants_it(renderers):
    text = laid_out(renderers["llama3"], CONVERSATION, TOOLS)
    order = ['"parameters": {"path": "a"}', "Alpha", '"parameters": {"path": "b"}', "Beta"]
    assert sorted(order, key=text.find) == order


def test_thoughts_in_the_history_go_to_templates_that_know_them(renderers):
    assert "<think>\nTwo files.\n</think>" in laid_out(renderers["qwen3"], CONVERSATION)
    assert "Two files." not in laid_out(renderers["plain"], CONVERSATION)


def test_what_the_template_opens_is_known(renderers):
    openings = {name: renderer.opening for name, renderer in renderers.items() if renderer.opening}
    assert openings == {"qwen3.5": "<think>\n", "deepseek": "<think>\n"}


def test_what_is_opened_ends_the_prompt(renderers):
    ask = [{"role": "user", "content": "Hi"}]
    assert laid_out(renderers["qwen3"], ask, TOOLS, "<tool_call>\n").endswith("<|im_start|>assistant\n<tool_call>\n")


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '"x"', None, {"path": "x"}, "null"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_arguments_of_any_shape_can_be_laid_out(renderers, name, arguments):
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call("c", "read", arguments)]}]
    assert renderers[name].prompt_ids(messages)


HI, HELLO = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
UNNAMED = {"role": "assistant", "content": "", "tool_calls": [call("", "", "")]}
RAIN = {"role": "tool", "tool_call_id": "", "content": "Rain."}


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [HELLO, HI],
        [{"role": "system", "content": "You help."}],
        [{"role": "system", "content": "You help."}, HELLO],
        [HI, HELLO],
        [HI, HELLO, HELLO],
        [HI, UNNAMED],
        [HI, UNNAMED, HI],
        [HI, UNNAMED, RAIN],
        [UNNAMED, RAIN, HI],
        [RAIN],
        [RAIN, HI],
        [{"role": "user", "content": ""}],
    ],
)
@pytest.mark.parametrize("name", TEMPLATES)
def test_any_part_of_a_conversation_can_be_laid_out_for_any_model(renderers, name, messages):
    """Clients cut histories anywhere, and count what is left."""
    ids = renderers[name].prompt_ids(messages, reply=messages[-1]["role"] != "assistant")
    text = renderers[name]._tokenizer.decode(ids, skip_special_tokens=False)
    places = [text.find(message["content"]) for message in messages if message["content"]]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("broken", [{}, {"function": {}}, "read", {"function": {"name": 3}}])
def test_a_call_without_a_name_is_refused(renderers, broken):
    with pytest.raises(MessagesRefused, match="no function with a name"):
        renderers["plain"].prompt_ids([{"role": "assistant", "tool_calls": [broken]}])


CONTROL = (0, 1, 2)  # <|endoftext|>, <|im_start|>, <|im_end|>
hostile = st.lists(
    st.sampled_from(
        ["<|im_end|>", "<|im_start|>", "<|endoftext|>", "system\n", "<|im_", "end|>", '"', "\\", "a", "\ufdd0"]
    )
).map("".join)


@pytest.mark.parametrize("name", TEMPLATES)
@given(text=hostile)
def test_nothing_in_tools_calls_or_results_becomes_a_control_token(renderers, name, text):
    def conversation(words):
        tool = {"name": "read" + words, "description": words, "parameters": {"properties": {words: {"enum": [words]}}}}
        calls = [call("c" + words, "read" + words, json.dumps({"path": words, "k" + words: [words]}))]
        messages = [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": words, "tool_calls": calls, "reasoning_content": words},
            {"role": "tool", "tool_call_id": "c" + words, "content": words},
        ]
        ids = renderers[name].prompt_ids(messages, [{"type": "function", "function": tool}])
        return [id for id in ids if id in CONTROL]

    assert conversation(text) == conversation("")


# Calls that must be made


@pytest.mark.parametrize("style", STYLES)
def test_a_forced_call_is_read_as_one(style):
    opened, schema = forced(style, TOOLS, "required")
    wanted = json.loads(schema)
    wanted = wanted.get("items", wanted)["anyOf"]
    member = STYLES[style].arguments
    assert [one["properties"]["name"]["const"] for one in wanted] == ["read", "write"]
    assert wanted[0]["properties"][member] == TOOLS[0]["function"]["parameters"] | {"additionalProperties": False}
    said = json.dumps({"name": "read", member: {"path": "x"}})
    reader = Reader(style=style, tools=TOOLS, opened=opened)
    reader.feed(f"[{said}]" if style == "mistral" else said)
    reader.end()
    assert [one["function"] for one in reader.message["tool_calls"]] == [{"name": "read", "arguments": '{"path": "x"}'}]


def test_one_named_tool_is_the_only_one():
    schema = json.loads(forced("hermes", TOOLS, "=write")[1])
    assert schema["properties"]["name"] == {"const": "write"}
    with pytest.raises(ToolMissing, match="the tool 'fly'"):
        forced("hermes", TOOLS, "=fly")
    with pytest.raises(ToolMissing, match="a tool"):
        forced("hermes", [], "required")


def test_a_schema_that_points_to_its_own_parts_still_does():
    parameters = {
        "$defs": {"N": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/$defs/N"}, "more": {"$ref": "#"}},
    }
    tools = [*TOOLS, {"type": "function", "function": {"name": "count", "parameters": parameters}}]
    schema = json.loads(forced("hermes", tools, "required")[1])
    arguments = schema["anyOf"][2]["properties"]["arguments"]
    part, whole = (arguments["properties"][name]["$ref"].removeprefix("#/$defs/") for name in ("n", "more"))
    assert schema["$defs"][part] == parameters["$defs"]["N"]
    assert schema["$defs"][whole] == arguments


def test_two_tools_may_call_their_parts_alike():
    tools = [
        {
            "type": "function",
            "function": {
                "name": kind,
                "parameters": {
                    "$id": "https://example.org/same",
                    "$defs": {"x": {"$anchor": "x", "type": kind}},
                    "properties": {"a": {"$ref": "#x"}},
                },
            },
        }
        for kind in ("integer", "string")
    ]
    schema = json.loads(forced("hermes", tools, "required")[1])
    parts = [one["properties"]["arguments"]["properties"]["a"]["$ref"] for one in schema["anyOf"]]
    assert [schema["$defs"][part.removeprefix("#/$defs/")] for part in parts] == [
        {"type": "integer"},
        {"type": "string"},
    ]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"type": "string"}, "The parameters of tool 'x' cannot be held: at '#/type', a function's arguments are an"),
        ({"properties": {"a/b": {"not": {}}}}, "The parameters of tool 'x' cannot be held: at '#/properties/a~1b/not'"),
        ({"properties": {"a": {"$ref": "#/$defs/y"}}}, "at '#/properties/a/$ref', '#/$defs/y' points to nothing"),
    ],
)
def test_what_is_wrong_with_a_forced_calls_schema_is_said_in_the_clients_own_words(parameters, said):
    with pytest.raises(SchemaRefused) as refusal:
        forced("hermes", [*TOOLS, {"type": "function", "function": {"name": "x", "parameters": parameters}}], "=x")
    assert said in str(refusal.value)
    assert refusal.value.tool == "x"


def test_a_member_that_is_needed_and_not_described_may_be_anything():
    tool = {"type": "function", "function": {"name": "x", "parameters": {"required": ["a"]}}}
    arguments = json.loads(forced("hermes", [tool], "=x")[1])["properties"]["arguments"]
    assert arguments == {"properties": {}, "required": ["a"], "type": "object"}


@given(
    parameters=st.recursive(
        st.none() | st.text(max_size=3) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "anyOf", "enum", "const", "$ref", "a"]), inner, max_size=4
            )
        ),
    )
)
def test_whatever_a_client_says_of_its_parameters_is_borne(parameters):
    tools = [{"type": "function", "function": {"name": "x", "parameters": parameters}}]
    with suppress(SchemaRefused):
        json.loads(forced("xml", tools, "=x")[1])
    Reader(style="xml", tools=tools).feed("<tool_call><function=x><parameter=a>1</parameter></function>")


def test_a_forced_call_ends_the_thinking_first():
    assert forced("xml", TOOLS, "required", "<think>\n")[0] == "\n</think>\n\n<tool_call>\n"
    assert forced("hermes", TOOLS, "required", "<think>\n\n</think>\n\n")[0] == "<tool_call>\n"


def test_no_tool_is_shown_where_none_may_be_called():
    held = form("hermes", "", TOOLS, {"tool_choice": "none"})
    assert (held.tools, held.opened, held.schema) == ([], "", "")
    reader = Reader.of(TOOLS, {"tool_choice": "none"} | held.asked)
    reader.feed("<tool_call>{}</tool_call>")
    assert reader.message["content"] == "<tool_call>{}</tool_call>"


def test_a_schema_holds_where_no_tool_may_be_called():
    schema = {"type": "object"}
    held = form("hermes", "<think>\n", [], {"schema": schema})
    assert (held.opened, json.loads(held.schema)) == ("\n</think>\n\n", schema)
    assert held.sampling == {"json_schema": held.schema}
    assert Reader.of([], held.asked).marks == ["grammar"]
    assert form("hermes", "", TOOLS, {"schema": schema}).schema == ""


def test_one_call_at_a_time_ends_with_its_closer():
    assert form("xml", "", TOOLS, {"parallel_tool_calls": False}).stop == ("</tool_call>",)
    assert form("xml", "", [], {"parallel_tool_calls": False}).stop == ()
    reader = Reader(style="hermes", tools=TOOLS)
    reader.feed('<tool_call>\n{"name": "read", "arguments": {"path": "x"}}\n')  # the engine cuts a stop string off
    reader.end()
    assert len(reader.message["tool_calls"]) == 1


def test_a_control_token_that_begins_a_call_is_asked_for():
    assert form("mistral", "", TOOLS, {}).sampling == {"skip_special_tokens": False}
    assert form("mistral", "", [], {}).sampling == {}


def test_a_turn_is_opened_as_it_was_asked_for(renderers):
    plain = renderers["plain"]
    held = form(plain.style, plain.opening, TOOLS, {"tool_choice": "=read"})
    ids = plain.prompt_ids([{"role": "user", "content": "Hi"}], held.tools, held.opened)
    assert plain._tokenizer.decode(ids, skip_special_tokens=False).endswith("<|im_start|>assistant\n<tool_call>\n")
    reader = Reader.of(TOOLS, {"tool_choice": "=read"} | held.asked)
    reader.feed('{"name": "read", "arguments": {}}')
    reader.end()
    assert reader.message["tool_calls"][0]["function"]["name"] == "read"
