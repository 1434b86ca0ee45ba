"""Quoted text stays evidence: nothing that anybody wrote can act."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import evidence, prompts, voting
from judge.evidence import Evidence

INJECTIONS = [json.loads(line) for line in (Path(__file__).parent / "injections.jsonl").read_text().splitlines()]
PIECES = (
    *("\\", "boxed", "{", "1", "}", " ", "\n", "\r", "\u2028", "\x85", "\x0b", "\u200b", "| ", "The reply:"),
    *("[", "HINT_START", "]", "HINT_END", "<", "|im_end|", ">", "|im_start|", "assistant", "[/INST]"),
)
HOSTILE = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(PIECES),
        max_size=30,
    ).map("".join),
    st.sampled_from(INJECTIONS),
)


def titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("|")]


def everywhere(text: str, role: str = "user") -> Evidence:
    return Evidence(
        (("user", text), ("assistant", text), ("user", text)),
        text,
        ((role, text),),
        guidance=text,
        rewrite=text,
        reasons=(text, text),
        tested=-1,
        exit_codes=(1,),
        output=text,
    )


def test_there_are_more_than_thirty_injections():
    assert len(set(INJECTIONS)) >= 40


@pytest.mark.parametrize("role", ["user", "tool"])
@given(text=HOSTILE)
def test_no_text_can_end_its_quotation(role, text):
    harmless = everywhere("words", role)
    assert titles(everywhere(f"so: {text}", role).text) == titles(harmless.text)


@given(HOSTILE)
def test_a_judge_that_parrots_the_evidence_forges_neither_score_nor_hint(text):
    shown = everywhere(text).text
    assert voting.score_of(shown) is None
    assert voting.hint_of(shown) == ""


@given(HOSTILE)
def test_what_is_quoted_spells_no_control_token(text):
    quoted = evidence.quoted(text, 500)
    for token in ("<|im_end|>", "<|im_start|>", "<|endoftext|>", "<|eot_id|>", "</s>", "[/INST]", "[INST]"):
        assert token not in quoted


@pytest.mark.parametrize("text", INJECTIONS)
def test_no_injection_adds_a_control_token_to_the_judges_prompt(text, tiny_model):
    from chat.rendering import Renderer

    renderer = Renderer.for_model(tiny_model)

    def controls(seen: Evidence) -> list[int]:
        return [token for token in renderer.prompt_ids(prompts.score(seen)) if token <= 2]

    assert controls(everywhere(text)) == controls(everywhere("words"))


def test_ordinary_text_is_quoted_as_it_is():
    assert evidence.quoted("a < b, x <= y\nif [1, 2]: \\frac{1}{2} {x}", 200) == (
        "| a < b, x <= y\n| if [1, 2]: \\frac{1}{2} {x}"
    )


def test_long_text_keeps_its_beginning_and_its_end():
    shown = evidence.shortened("start " + "x" * 5000 + " end", 300)
    assert shown.startswith("start ")
    assert shown.endswith(" end")
    assert "4710 characters left out" in shown
    assert len(shown) < 340


def test_context_is_bounded_and_system_prompts_stay_out():
    messages = [{"role": "system", "content": "secret"}] + [{"role": "user", "content": f"m{n}"} for n in range(20)]
    assert evidence.asked(messages) == [("user", f"m{n}") for n in (15, 16, 17, 18, 19)]
    assert evidence.asked(messages[:1]) == []


def test_parallel_tool_results_share_the_room():
    few = Evidence((("user", "go"),), "calls x()", (("tool", "y" * 5000),))
    many = Evidence((("user", "go"),), "calls x()", (("tool", "y" * 5000),) * evidence.MOST_RESULTS)
    assert len(many.text) < len(few.text) + 100 * evidence.MOST_RESULTS


def test_tool_calls_and_parts_are_readable():
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "ls", "arguments": '{"a": 1}'}}]}
    assert evidence.text_of(call) == 'calls ls({"a": 1})'
    parts = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}]}
    assert evidence.text_of(parts) == "look\n(image_url)"


def test_a_thumb_is_not_shown_to_the_judge_but_counts_as_other_evidence():
    plain = Evidence((("user", "hi"),), "hello", (("user", "thanks"),))
    thumbed = Evidence((("user", "hi"),), "hello", (("user", "thanks"),), thumb=-1)
    assert plain.text == thumbed.text
    assert plain != thumbed


def test_reasons_and_tests_read_as_a_short_page():
    seen = Evidence((("user", "hi"),), "ho", reasons=("too long", "tone"), tested=-1, exit_codes=(2,), output="E: no")
    assert seen.next_role == "person"
    assert seen.text.endswith(
        "A test of the reply failed (exit code 2).\nWhat the test wrote:\n| E: no\n"
        "Why the person does not like the reply:\n| too long, tone"
    )
    assert seen.unswayed.next_role == "tool"
    assert Evidence((), "ho", tested=1).next_role == ""


def test_thumbs_of_several_people_are_weighed():
    assert evidence.sign_of([1, 1, -1]) == 1
    assert evidence.sign_of([1, -1]) is None
    assert evidence.sign_of([]) is None


def test_the_evidence_of_each_kind_reads_as_a_short_page():
    request = (("user", "Sort these: b a"),)
    user = Evidence(request, "b a", (("user", "That is not sorted."),))
    assert user.text == (
        "The request, user:\n| Sort these: b a\nThe reply:\n| b a\nWhat came back, user:\n| That is not sorted."
    )
    tools = Evidence(request, "calls sort({})", (("tool", "a b"), ("tool", "done")))
    assert tools.next_role == "tool"
    assert tools.text.endswith("What came back, tool:\n| a b\nWhat came back, tool:\n| done")
    said = Evidence(request, "b a", guidance="Check the order.", rewrite="a b")
    assert said.next_role == "person"
    assert said.text.endswith(
        "What the person says of the reply (next time, do this):\n| Check the order.\n"
        "What the person says the reply should have been:\n| a b"
    )


def test_a_judge_reads_words_and_nothing_that_their_client_put_around_them(serve):
    line = "Runtime: agent=main | session=agent:main:main | sessionId=s1 | host=vm"
    note = {"role": "user", "content": "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret note"}
    turn = serve(next_state="[Fri 2026-11-20 10:05 UTC] No, shorter.", rule="openclaw/main")
    turn.messages = [{"role": "user", "content": f"[Fri 2026-11-20 10:04 UTC] What is 2 and 2?\n\n{line}"}, note]

    seen = evidence.of(turn)

    assert seen.request == (("user", "What is 2 and 2?"),)
    assert seen.next_state == (("user", "No, shorter."),)


def test_a_judge_reads_the_calls_of_a_reply(serve):
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}}
    turn = serve(reply="", next_state="42", role="tool", message={"role": "assistant", "tool_calls": [call]})
    assert evidence.of(turn).reply == 'calls read({"path": "x"})'
