"""A judge of a step on a web page reads the page before it, what was done, and the page after it."""

from __future__ import annotations

from chat.models import Session, Turn
from judge.votes import evidence

BEFORE = 'The page:\n"Username"\n[1] textbox value=""\n[2] button "Login"'
AFTER = 'The page:\n"Username"\n[1] textbox value="ada" focused\n[2] button "Login"'


def shown(messages: list[dict]) -> str:
    calls = [{"id": "2", "type": "function", "function": {"name": "type", "arguments": '{"element":1,"text":"ada"}'}}]
    turn = Turn(
        session=Session(named_by="key"),
        messages=messages,
        text="",
        message={"role": "assistant", "content": "", "tool_calls": calls},
        next_state=[{"role": "tool", "tool_call_id": "2", "content": AFTER}],
    )
    return evidence.of(turn, []).text


def test_a_judge_of_a_step_on_a_page_reads_before_and_after():
    begin = [{"role": "system", "content": "You use a page."}, {"role": "user", "content": f"Log in as ada.\n{BEFORE}"}]
    looked = [
        {"role": "assistant", "content": "I look."},
        {"role": "tool", "tool_call_id": "1", "content": BEFORE},
    ]
    for messages in (begin, [*begin, *looked], [*begin, *looked * 6]):
        said = shown(messages)
        before, after = said.index('textbox value=""'), said.index('textbox value="ada" focused')
        assert before < said.index('"element":1') < after
        assert "Log in as ada." in said  # what was asked, however many steps ago
        assert said.rindex("What came back, tool:") < after
