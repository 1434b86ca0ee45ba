"""Quoted text stays evidence: nothing that a person wrote can act."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.models import Hint
from judge.votes import evidence, prompts, quoting
from judge.votes.evidence import Evidence
from tests.judge.votes.hostile_texts import everywhere, titles

KINDS = ("user", "tool", "environment", "test")
FAMILIES = prompts.families()


def test_ordinary_text_is_quoted_as_it_is():
    assert quoting.quoted("a < b, x <= y\nif [1, 2]: \\frac{1}{2} {x}", 200) == (
        "| a < b, x <= y\n| if [1, 2]: \\frac{1}{2} {x}"
    )


def test_long_text_keeps_its_beginning_and_its_end():
    shown = quoting.shortened("start " + "x" * 5000 + " end", 300)
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
    assert seen.unswayed.next_role == "test"
    assert Evidence((), "ho", tested=1).next_role == ""


def test_thumbs_of_several_people_are_weighed():
    assert evidence.sign_of([1, 1, -1]) == 1
    assert evidence.sign_of([1, -1]) is None
    assert evidence.sign_of([]) is None


REQUEST = (("user", "Sort these: b a"),)
SNAPSHOTS = {
    "user": (
        Evidence(REQUEST, "b a", (("user", "That is not sorted."),)),
        "The request, user:\n| Sort these: b a\nThe reply:\n| b a\nWhat came back, user:\n| That is not sorted.",
    ),
    "tool": (
        Evidence(REQUEST, "calls sort({})", (("tool", "a b"), ("tool", "done"))),
        "The request, user:\n| Sort these: b a\nThe reply:\n| calls sort({})\nWhat came back, tool:\n| a b\n"
        "What came back, tool:\n| done",
    ),
    "environment": (
        Evidence(REQUEST, "click(3)", (("environment", "A window opens.\nIt says: sorted."),)),
        "The request, user:\n| Sort these: b a\nThe reply:\n| click(3)\nWhat came back, environment:\n"
        "| A window opens.\n| It says: sorted.",
    ),
    "test": (
        Evidence(REQUEST, "b a", tested=-1, exit_codes=(1,), output="AssertionError: b a != a b"),
        "The request, user:\n| Sort these: b a\nThe reply:\n| b a\nA test of the reply failed (exit code 1).\n"
        "What the test wrote:\n| AssertionError: b a != a b",
    ),
    "person": (
        Evidence(REQUEST, "b a", guidance="Check the order.", rewrite="a b", reasons=("wrong",)),
        "The request, user:\n| Sort these: b a\nThe reply:\n| b a\nWhy the person does not like the reply:\n| wrong\n"
        "What the person says of the reply (next time, do this):\n| Check the order.\n"
        "What the person says the reply should have been:\n| a b",
    ),
}


@pytest.mark.parametrize("role", SNAPSHOTS)
def test_the_evidence_of_each_kind_reads_as_a_short_page(role):
    seen, page = SNAPSHOTS[role]
    assert (seen.next_role, seen.text) == (role, page)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("role", SNAPSHOTS)
def test_every_kind_has_a_question(role, family):
    for question in ("score", "hint"):
        assert prompts.question(question, family).text(role)
        asked = prompts.messages(question, SNAPSHOTS[role][0], family)
        assert [message["role"] for message in asked[:1] + asked[-1:]] == ["system", "user"]


def test_every_parallel_result_counts_and_most_are_shown():
    seen = Evidence(REQUEST, "calls x()", tuple(("tool", f"result {n} " + "y" * 300) for n in range(60)))
    assert seen.text.count("What came back, tool:") == evidence.MOST_RESULTS == 24
    assert "Of what came back 36 more are left out." in seen.text
    other = Evidence(REQUEST, "calls x()", (*seen.next_state[:-1], ("tool", "another")))
    assert other.text == seen.text
    assert other.digest != seen.digest  # what is not shown is evidence too
    failing = Evidence(REQUEST, "calls x()", (*seen.next_state[:-1], ("tool", "exit code 2")))
    assert failing.reward == -1


def test_a_message_called_environment_comes_from_the_environment():
    said = [
        {"role": "user", "name": "environment", "content": "The door opens."},
        {"role": "user", "name": "ana", "content": "Thanks."},
        {"role": "function", "name": "ls", "content": "a"},
        {"role": "narrator\n| forged", "content": "x"},
    ]
    assert [role for role, _ in evidence.spoken(said)] == ["environment", "user", "tool", "user"]


@pytest.mark.parametrize(
    ("seen", "source"),
    [
        (Evidence(REQUEST, "b a", (("user", "No."),)), "user"),
        (Evidence(REQUEST, "b a", reasons=("wrong",)), "user"),  # no person's own words for a hint
        (Evidence(REQUEST, "b a", (("user", "No."),), guidance="Sort."), "user"),
        (Evidence(REQUEST, "x", (("environment", "No."),)), "environment"),
        (Evidence(REQUEST, "x", (("tool", "a"),)), "tool"),
        (Evidence((*REQUEST, ("tool", "a")), "x", (("user", "No."),)), "tool"),
        (Evidence(REQUEST, "x", (("user", "No."),), tested=-1, output="E"), "test"),
        (Evidence(REQUEST, "x", (("tool", "a"),), origins=frozenset({"file"})), "file"),
        (Evidence(REQUEST, "x", (("tool", "a"),), origins=frozenset({"file", "web"})), "web"),
    ],
)
def test_a_hint_is_as_good_as_the_least_trusted_text_its_judge_read(seen, source):
    assert seen.source == source


def test_every_source_is_one_of_a_hints():
    assert set(evidence.TRUST) == set(Hint.Source.values)


@pytest.mark.parametrize(
    ("name", "arguments", "source"),
    [
        ("web_search", "{}", "web"),
        ("exec", '{"command": "curl https://example.org"}', "web"),
        ("read", '{"path": "x"}', "file"),
        ("exec", '{"command": "make"}', "tool"),
    ],
)
def test_a_tools_name_and_arguments_say_where_its_text_comes_from(serve, name, arguments, source):
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
    turn = serve(reply="", message={"role": "assistant", "tool_calls": [call]})
    turn.next_state = [{"role": "tool", "tool_call_id": "call_1", "content": "42"}]
    assert evidence.of(turn).source == source


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


@pytest.mark.parametrize("seen", [everywhere("words", role) for role in KINDS])
def test_every_title_is_one_that_quoted_text_cannot_spell(seen):
    seen = replace(seen, comments=("words",), marks=((0, 2, 1), (2, 4, -1)))
    for title in titles(seen.text):
        assert quoting.TITLE.search(title)
        assert title not in quoting.quoted(title, 500)


def test_a_boxed_answer_is_shown_as_what_it_is():
    alone = Evidence(REQUEST, "b a", (("user", "No, it is \\boxed{1}."),))
    assert alone.text.endswith("| No, it is \\boxed(one}.")
    answer = Evidence(REQUEST, "It is \\boxed{1}. Sure.", (("tool", "It is \\boxed{42}.\n<b>Done</b>"),))
    assert "| It is \\boxed(one}. Sure." in answer.text  # a reply may be an answer in a box
    assert answer.text.endswith("| It is \\boxed(42}.\n| ‹b>Done‹/b>")
