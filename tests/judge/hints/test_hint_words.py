"""What a hint may be, and where it goes."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.hints import hint_words
from judge.hints.hint_words import GUIDANCE

USER = {"role": "user", "content": "List the files."}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "a.txt"}


def test_it_stands_at_the_end_of_the_last_user_message_labelled_as_guidance():
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}, USER]
    placed = hint_words.placed(messages, "One word.")
    assert placed[-1] == {"role": "user", "content": "List the files.\n\n" + GUIDANCE.format(hint="One word.")}
    assert placed[:-1] == messages[:-1]


def test_in_a_tool_loop_it_comes_after_the_results_it_refers_to():
    placed = hint_words.placed([USER, CALL, RESULT], "Sort them by size.")
    assert placed[:3] == [USER, CALL, RESULT]
    assert placed[3] == {"role": "user", "content": GUIDANCE.format(hint="Sort them by size.")}


def test_without_any_user_message_it_becomes_one():
    assert [m["role"] for m in hint_words.placed([{"role": "system", "content": "x"}], "Be brief.")] == [
        "system",
        "user",
    ]
    assert len(hint_words.placed([], "Be brief.")) == 1


def test_content_in_parts_gets_one_more_part():
    placed = hint_words.placed([{"role": "user", "content": [{"type": "text", "text": "look"}]}], "Be brief.")
    assert placed[0]["content"][-1] == {"type": "text", "text": GUIDANCE.format(hint="Be brief.")}


@given(st.lists(st.sampled_from([USER, CALL, RESULT]), max_size=6), st.text(min_size=1).filter(str.strip))
def test_the_served_messages_are_left_as_they_were(messages, hint):
    before = copy.deepcopy(messages)
    placed = hint_words.placed(messages, hint)
    assert sum(GUIDANCE.format(hint=hint) in message["content"] for message in placed) == 1
    assert messages == before


def test_an_empty_hint_has_no_place():
    with pytest.raises(ValueError, match="empty hint"):
        hint_words.placed([USER], "  ")


def test_a_persons_words_are_the_hint_word_for_word():
    assert hint_words.worded(guidance="  Use metres. ") == "Use metres."
    assert hint_words.worded(rewrite="3 m") == "The reply that is wanted: 3 m"
    assert hint_words.worded("Use metres.", "3 m") == "Use metres.\nThe reply that is wanted: 3 m"
    assert hint_words.worded() == ""


@pytest.mark.parametrize(
    ("hint", "fault"),
    [
        ("Be brief.", "shorter than 10 characters"),
        ("x" * 601, "longer than 600 characters"),
        ("!!!!!!!!!!!!", "no words in it"),
        ("Rabbits eat grass and hay.", "it only repeats the reply"),
        ("rabbits  EAT grass", "it only repeats the reply"),
        ("Rabbits eat grass and some hay", "it only repeats the reply"),
        ("Say what young rabbits eat, too.", ""),
        ("Stop here. <|im_end|>", "it holds a control token or a marker"),
        ("The answer is 42, so say 42.", "it gives the answer away"),
        ("The answer should be 20 words long.", ""),
        ("The answer is too long for a phone.", ""),
    ],
)
def test_hints_that_say_nothing_new_are_refused(hint, fault):
    assert hint_words.fault(hint, "Rabbits eat grass and hay.") == fault


def test_gain_is_measured_in_the_wanted_direction():
    assert hint_words.gain([-1.0, -1.0], [-2.0, -1.0], reward=-1) == 0.5
    assert hint_words.gain([-1.0, -1.0], [-2.0, -1.0], reward=1) == -0.5
    assert hint_words.gain([-1.0, -1.0], [-2.0, -0.0], reward=None) == 1.0
    with pytest.raises(ValueError, match="longer"):
        hint_words.gain([-1.0], [-1.0, -2.0], reward=1)


def test_a_clients_own_note_at_the_end_does_not_carry_the_hint():
    note = {"role": "user", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> none"}
    asked = [{"role": "user", "content": "Why?"}, note]
    assert [m["content"] for m in hint_words.placed(asked, "Be brief.", said=[0])] == [
        "Why?\n\n(Guidance: Be brief.)",
        note["content"],
    ]
    loop = [{"role": "user", "content": "ls"}, {"role": "tool", "content": "a b"}, note]
    assert [m["content"] for m in hint_words.placed(loop, "Sort it.", said=[0, 1])] == [
        "ls",
        "a b",
        "(Guidance: Sort it.)",
        note["content"],
    ]
