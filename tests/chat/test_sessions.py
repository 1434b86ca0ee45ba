"""A request finds its conversation by what it says, however its client rewrote it."""

from __future__ import annotations

import json

import pytest
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from chat import sessions, stories
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import replies
from tests.chat.conftest import ask_in, assistant, user

HI = [user("Hi"), assistant("Hello."), user("And now?")]
INTERNAL = user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nactive sessions: none")


def call(id, arguments, content=None):
    function = {"name": "read", "arguments": arguments}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def tool(id, content="42"):
    return {"role": "tool", "tool_call_id": id, "content": content}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([assistant("Hello.")], [assistant("  Hello.\n")]),
        ([assistant("<think>hm</think>Hello.")], [assistant("Hello.")]),
        ([assistant("Hello. <think>unclosed")], [assistant("Hello.")]),
        ([call("call_1_0", '{"path": "x"}')], [call("call10", '{"path":"x"}')]),
        ([call("a", "{}", "")], [call("a", "{}", None)]),
        ([tool("call_1_0")], [tool("call10")]),
        ([user("Hi"), INTERNAL, assistant("Hello.")], [user("Hi"), assistant("Hello.")]),
        ([{"role": "system", "content": "A"}, *HI], [{"role": "system", "content": "B"}, *HI]),
        ([user("Hi"), assistant("")], [user("Hi")]),
    ],
)
def test_what_clients_rewrite_does_not_count(one, other, db):
    assert stories.chain(one, "openclaw") == stories.chain(other, "openclaw")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([user("Hi")], [user("Ho")]),
        ([user("Hi")], [assistant("Hi")]),
        ([user("a"), user("b")], [user("b"), user("a")]),
        ([user("ab"), user("c")], [user("a"), user("bc")]),
        ([call("a", '{"x": 1}')], [call("a", '{"x": 2}')]),
        ([tool("a")], [tool("b")]),
        ([call("a", "no json")], [call("a", "no jsonn")]),
    ],
)
def test_what_was_said_counts(one, other):
    assert stories.chain(one) != stories.chain(other)


said = st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(min_size=1)), max_size=6)


@given(said, said)
def test_only_equal_conversations_have_equal_chains(one, other):
    def essential(conversation):
        story = stories.Story([{"role": role, "content": text} for role, text in conversation])
        return json.dumps([said for _, said in story.kept])

    def chained(conversation):
        return stories.chain([{"role": role, "content": text} for role, text in conversation])

    assert (chained(one) == chained(other)) == (essential(one) == essential(other))


def two_calls():
    made = call("call_1_0", "{}")
    return made | {"tool_calls": [*made["tool_calls"], call("call_1_1", "{}")["tool_calls"][0]]}


@pytest.mark.parametrize(
    ("said", "next_state"),
    [
        ([tool("call10"), tool("call11"), INTERNAL], [tool("call10"), tool("call11")]),
        ([tool("call11"), tool("call10")], [tool("call11"), tool("call10")]),
        ([tool("call10"), user("Stop.")], [tool("call10"), user("Stop.")]),
        ([tool("call10"), tool("foreign")], [tool("call10")]),  # it answers no call of this reply
        ([INTERNAL], []),
    ],
)
def test_the_next_state_is_everything_real_that_was_said_last(said, next_state, db):
    story = stories.Story([*HI[:1], two_calls(), *said], "openclaw")
    assert story.said_after(story.end) == next_state


def test_parallel_calls_that_come_back_as_two_replies_keep_both_results(db):
    results = [tool("call10"), tool("call11")]
    together = stories.Story([*HI[:1], two_calls(), *results, user("So?")], "openclaw")
    apart = stories.Story([*HI[:1], call("call_1_0", "{}"), call("call_1_1", "{}"), *results, user("So?")], "openclaw")
    assert apart.said_after(apart.end) == [*results, user("So?")]
    assert apart.chain == together.chain


def served(session, messages, text):
    """A finished turn, without an engine."""
    turn = ask_in(session, messages)
    replies.finish(turn, Turn.Status.SERVED, {"text": text, "finish_reason": "stop"})
    return turn


def test_a_reply_whose_transaction_fails_after_the_turn_has_moved_is_written_down_again(key: ApiKey, monkeypatch):
    session, _ = sessions.find(key, HI[:1])
    turn = ask_in(session, HI[:1])
    spend, tries = replies.limits.spend, iter([True])

    def fails_once(turn):
        if next(tries, False):
            raise OperationalError("disk I/O error")
        return spend(turn)

    monkeypatch.setattr(replies.limits, "spend", fails_once)
    replies.finish(turn, Turn.Status.SERVED, {"text": "Hello.", "finish_reason": "stop"})
    kept = Turn.objects.get(pk=turn.pk)
    assert (kept.status, kept.text) == ("served", "Hello.")


def test_a_request_continues_the_turn_whose_history_it_extends(key: ApiKey):
    session, follows = sessions.find(key, HI[:1])
    assert follows is None
    turn = served(session, HI[:1], "Hello.")

    assert sessions.find(key, HI) == (session, turn)


def test_another_history_is_another_conversation(key: ApiKey):
    session, _ = sessions.find(key, HI[:1])
    served(session, HI[:1], "Hello.")

    foreign, follows = sessions.find(key, [user("Hi"), assistant("Go away."), user("And now?")])

    assert foreign != session
    assert follows is None


def test_two_keys_never_share_a_session(key: ApiKey, ben):
    session, _ = sessions.find(key, HI[:1], external_id="s1")
    served(session, HI[:1], "Hello.")
    other, _ = ApiKey.objects.issue(ben, "other")
    same_person, _ = ApiKey.objects.issue(key.user, "phone")

    for foreign in (other, same_person):
        assert sessions.find(foreign, HI)[0] != session
        assert sessions.find(foreign, HI, external_id="s1")[0] != session


def test_the_clients_own_name_for_a_session_decides(key: ApiKey):
    first, _ = sessions.find(key, HI[:1], external_id="s1")
    again, _ = sessions.find(key, [user("Something else")], external_id="s1")
    assert first == again
    assert first.external_id == "s1"


def test_long_names_differ_to_their_last_letter(key: ApiKey):
    first, _ = sessions.find(key, HI[:1], external_id="x" * 300 + "a")
    assert sessions.find(key, HI[:1], external_id="x" * 300 + "a")[0] == first
    assert sessions.find(key, HI[:1], external_id="x" * 300 + "b")[0] != first


def test_a_user_names_a_session_where_nothing_else_does(key: ApiKey):
    first, _ = sessions.find(key, HI[:1], external_id="user:u7")
    assert sessions.find(key, [user("Else")], external_id="user:u7")[0] == first
    assert sessions.find(key, [user("Else")], external_id="user:u8")[0] != first


def test_a_name_alone_makes_nothing_follow(key: ApiKey):
    session, _ = sessions.find(key, HI[:1], external_id="s1")
    served(session, HI[:1], "Hello.")
    assert sessions.find(key, [user("Elsewhere"), assistant("Yes?"), user("No.")], external_id="s1") == (session, None)


@pytest.mark.parametrize(("result", "is_known"), [("call10", True), ("call_1_0", True), ("call20", False)])
def test_a_history_that_was_cut_between_a_call_and_its_result_goes_on(key: ApiKey, result, is_known):
    session, _ = sessions.find(key, HI[:1], external_id="s1")
    told = served(session, [user("Read x."), call("call_1_0", '{"path": "x"}'), tool("call_1_0")], "It says 42.")
    served(session, [user("Read y."), call("call_3_0", '{"path": "y"}'), tool("call_3_0")], "It says 42.")

    cut = [user("A summary."), tool(result), assistant("It says 42."), user("And now?")]

    # Both read the same and said the same: whose result it is tells them apart.
    assert sessions.find(key, cut, external_id="s1") == (session, told if is_known else None)


def test_of_two_equal_conversations_the_one_that_was_not_continued_goes_on(key: ApiKey):
    first = served(Session.objects.create(user=key.user, key=key), HI[:1], "Hello.")
    second = served(Session.objects.create(user=key.user, key=key), HI[:1], "Hello.")
    ask_in(second.session, HI, follows=second)

    assert sessions.find(key, HI) == (first.session, first)


def test_closing_a_session_closes_what_nothing_came_back_to(session):
    waiting = served(session, HI[:1], "Hello.")
    sessions.close(session)
    waiting.refresh_from_db()
    session.refresh_from_db()
    assert waiting.status == Turn.Status.CLOSED
    assert session.closed_at is not None
