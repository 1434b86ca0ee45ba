"""Messages are laid out anew where a template cannot bear them, and nothing of them is lost."""

import pytest

from chat.rendering.arrangements import alternating, holds, spelled_out


@pytest.mark.parametrize(
    ("text", "sought", "claim"),
    [
        ("a b c", ["a", "b", "c"], True),
        ("a b c", ["c", "a"], True),  # begun again once
        ("a b c", ["a", "a", "", "a"], True),
        ("a b c", ["a", "d"], False),
        ("", [], True),
    ],
)
def test_orders_are_found_wherever_they_stand(text, sought, claim):
    assert holds(text, sought) is claim


def test_results_in_a_row_are_one_message_of_the_user():
    result = {"role": "tool", "tool_call_id": "a"}
    said = [{"role": "user", "content": "Hi"}, result | {"content": "1"}, result | {"content": "2"}]
    wanted = "<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
    assert spelled_out(said, ()) == [said[0], {"role": "user", "content": wanted}]


def test_what_one_said_several_times_in_a_row_is_said_at_once():
    said = [{"role": "user", "content": text} for text in ("a", "", "b", "c")]
    assert alternating(said) == [{"role": "user", "content": "a\n\nb\n\nc"}]
    assert [message["content"] for message in said] == ["a", "", "b", "c"]  # those that were given stay
