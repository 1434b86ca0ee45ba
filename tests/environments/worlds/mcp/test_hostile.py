"""Servers that mean harm: lists, names, schemas and descriptions; silence, noise, and questions back."""

from __future__ import annotations

import re
from typing import Any

import pytest

from environments.worlds.base import WorldFailed
from tests.environments.worlds.mcp.made import do, listed, opened, raw

pytestmark = pytest.mark.bubblewrap

OPENAI = re.compile(r"[A-Za-z0-9_-]{1,64}")


def functions(attempt) -> dict[str, dict[str, Any]]:
    return {tool["function"]["name"]: tool["function"] for tool in attempt.tools}


def test_names_that_openai_does_not_take_or_that_collide_are_renamed_and_called_by_their_own(tmp_path):
    tools = [listed(name) for name in ("read file", "read/file", "answer", "r" * 100, "читать")]
    with opened(raw(tmp_path, tools)) as attempt:
        names = list(functions(attempt))
        assert names == ["read_file", "read_file_2", "answer_2", "r" * 64, "______", "answer"]
        assert all(OPENAI.fullmatch(name) for name in names)
        assert '"name": "read/file"' in do(attempt, "read_file_2").text
        assert '"name": "answer"' in do(attempt, "answer_2").text
        assert do(attempt, "answer", value="7").is_over


def test_of_two_tools_with_one_name_the_second_is_not_offered(tmp_path):
    with opened(raw(tmp_path, [listed("pay", "the first"), listed("pay", "the second")])) as attempt:
        assert functions(attempt)["pay"]["description"] == "the first"
        assert attempt.offered.left_out == ["The tool 'pay' is not offered: another has the same name."]


def test_hidden_characters_of_descriptions_and_schemas_are_marked(tmp_path):
    tag = "\U000e0041"  # spells a letter that is not seen
    tool = listed("pay", f"Pays.{tag}\u202e\x1b[2J", to={"type": "string", "description": f"Who.{tag}", "enum": [tag]})
    with opened(raw(tmp_path, [tool])) as attempt:
        pay = functions(attempt)["pay"]
        assert pay["description"] == "Pays.⟨U+E0041⟩⟨U+202E⟩␛[2J"
        said = {"type": "string", "description": "Who.⟨U+E0041⟩", "enum": ["⟨U+E0041⟩"]}
        assert pay["parameters"]["properties"]["to"] == said


def test_a_description_is_cut_and_a_schema_of_1_mb_is_refused_with_a_sentence(tmp_path):
    tools = [listed("long", "d" * 5000), listed("wide", "", **{f"field{n}": {"type": "string"} for n in range(50_000)})]
    with opened(raw(tmp_path, tools)) as attempt:
        assert functions(attempt)["long"]["description"] == "d" * 2000 + " [3,000 characters left out]"
        assert list(functions(attempt)) == ["long", "answer"]
        (sentence,) = attempt.offered.left_out
        assert sentence.startswith("The tool 'wide' is not offered: its schema has 1,")


DEEP: dict[str, Any] = {"type": "object"}
for _ in range(30):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (DEEP, "its schema is nested deeper than 24"),
        ({"type": "object", "properties": {"a\u200bb": {}}}, "a name in its schema holds characters that are not seen"),
    ],
)
def test_a_server_whose_one_tool_cannot_be_offered_is_a_fault_of_the_world(tmp_path, schema, why):
    with pytest.raises(WorldFailed, match=f"offers no tool. The tool 'odd' is not offered: {why}"):
        opened(raw(tmp_path, [{"name": "odd", "inputSchema": schema}]))


def test_a_message_that_cannot_be_read_is_a_fault_of_the_world_at_once(tmp_path):
    with pytest.raises(WorldFailed, match="It sent a message that cannot be read"):
        opened(raw(tmp_path, [{"name": "half", "inputSchema": {"type": "object", "title": "\ud800"}}]))


def test_of_300_tools_128_are_offered(tmp_path):
    with opened(raw(tmp_path, [listed(f"t{n}") for n in range(300)])) as attempt:
        assert len(attempt.tools) == 129  # and answer
        assert len(attempt.offered.left_out) == 172


def test_a_list_without_end_is_a_fault_of_the_world(tmp_path):
    with pytest.raises(WorldFailed, match="over 1,000 tools, or 50 pages"):
        opened(raw(tmp_path, [], "endless"))
    with pytest.raises(WorldFailed, match="over 1,000 tools"):
        opened(raw(tmp_path, [listed(f"t{n}") for n in range(1001)]))


@pytest.mark.parametrize(("how", "said"), [("mute", "did not start: it did not answer in time"), ("silent", "list")])
def test_a_server_that_never_answers_is_a_fault_of_the_world(tmp_path, how, said):
    with pytest.raises(WorldFailed, match=said):
        opened(raw(tmp_path, [], how, start_s=1))


def test_what_a_server_prints_that_is_no_message_is_passed_over(tmp_path):
    with opened(raw(tmp_path, [listed("echo")], "noise")) as attempt:
        assert '"name": "echo"' in do(attempt, "echo").text


def test_a_server_that_asks_the_clients_model_is_refused(tmp_path):
    with opened(raw(tmp_path, [listed("echo")], "sampling")) as attempt:
        assert '"error"' in do(attempt, "echo").text


def test_an_error_of_the_protocol_is_a_fault_of_the_world(tmp_path):
    with (
        opened(raw(tmp_path, [listed("echo")], "stubborn")) as attempt,
        pytest.raises(WorldFailed, match="failed in its tool 'echo': I would rather not"),
    ):
        do(attempt, "echo")


def test_a_program_that_is_not_there_is_a_fault_of_the_world(tmp_path):
    path = raw(tmp_path, [])
    path.write_text(path.read_text().replace("python3", "snake"))
    with pytest.raises(WorldFailed, match="snake: No such file"):
        opened(path)
