"""Which conversation a request belongs to, and which line of it; and how conversations are closed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from chat import resorting, sessions, turns
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from tests.chat.asking.turns import HI, begin, ended, more, side
from tests.chat.conftest import assistant, user

pytestmark = pytest.mark.django_db


def test_an_edit_says_nothing_of_the_reply(key):
    first = ended(begin(key))
    second = ended(begin(key, more("Hello.", "In French."), b"2"), "Bonjour.")
    edited = begin(key, more("Hello.", "In Dutch."), b"3")
    assert (edited.asked["event"], edited.asked["of"]) == ("edit", second.completion_id)
    assert Turn.objects.get(pk=first.pk).next_state == [user("In French.")]
    assert Turn.objects.get(pk=second.pk).next_state == []


def test_a_branch_goes_on_from_an_older_reply(key):
    ended(begin(key))
    second = ended(begin(key, more("Hello."), b"2"), "Yes?")
    ended(begin(key, [*more("Hello."), assistant("Yes?"), user("Go on.")], b"3"), "So.")
    branch = begin(key, more("Hello.", "Else."), b"4")
    assert (branch.asked["event"], branch.asked["of"]) == ("branch", second.completion_id)


def test_a_foreign_history_is_foreign(key):
    ended(begin(key))
    foreign = begin(key, more("I never said this."), b"2")
    assert (foreign.asked["event"], foreign.follows_id) == ("foreign", None)


def test_a_new_beginning_in_a_named_session_is_one(key):
    ended(begin(key))
    ended(begin(key, more("Hello."), b"2"))
    assert begin(key, [user("Something else")], b"3").asked["event"] == "restart"


def test_a_user_may_have_many_conversations(key):
    about = {"session_id": "", "user": "u7"}
    ended(begin(key, **about))
    other = begin(key, [user("Something else")], b"2", **about)
    assert "event" not in other.asked
    assert other.session == Turn.objects.first().session


def test_two_conversations_of_a_user_that_begin_alike_say_nothing_of_each_other(key):
    about = {"session_id": "", "user": "u7"}
    first = ended(begin(key, **about))
    other = begin(key, **about)
    assert other.pk != first.pk
    assert "event" not in other.asked
    first.refresh_from_db()
    assert first.marks == []


def test_a_named_session_goes_on_over_a_history_that_was_cut(key):
    ended(begin(key))
    second = ended(begin(key, more("Hello."), b"2"), "Yes?")
    cut = begin(key, [user("And now?"), assistant("Yes?"), user("Go on.")], b"3")
    assert (cut.follows_id, cut.asked["event"]) == (second.pk, "rewritten")
    assert Turn.objects.get(pk=second.pk).next_state == [user("Go on.")]


def test_a_reply_alone_is_not_enough_to_go_on(key):
    ended(begin(key))
    cut = begin(key, [user("What?"), assistant("Hello."), user("Go on.")], b"3")
    assert cut.follows_id is None


def test_where_two_exchanges_fit_neither_is_taken(key):
    for n in range(2):
        ended(begin(key, [user("Go on.")], b"%d" % n), "OK.")
        Turn.objects.filter(position=n).update(chain=f"{n}")
    cut = begin(key, [user("Summary"), user("Go on."), assistant("OK."), user("No.")], b"3")
    assert cut.follows_id is None


def test_without_a_name_a_cut_history_is_a_new_conversation(key):
    ended(begin(key, session_id=""))
    ended(begin(key, more("Hello."), b"2", session_id=""), "Yes?")
    cut = begin(key, [user("And now?"), assistant("Yes?"), user("Go on.")], b"3", session_id="")
    assert (cut.follows_id, Session.objects.count()) == (None, 2)


def test_what_came_after_a_silent_reply_is_its_next_state(key):
    ended(begin(key))
    silent = ended(begin(key, more("Hello."), b"2"), "")
    begin(key, [*more("Hello."), user("Hello?")], b"3")
    assert Turn.objects.get(pk=silent.pk).next_state == [user("Hello?")]


def test_a_refused_request_leaves_nothing(key):
    with pytest.raises(turns.ContextTooLong):
        begin(key, [user("word " * 3000)])
    assert (Session.objects.count(), Turn.objects.count()) == (0, 0)


def test_a_turn_keeps_how_it_was_sorted_and_what_was_asked(key):
    turn = begin(key, user="u7", metadata={"a": "b"}, protocol="messages", prefix="msg_")
    assert (turn.kind, turn.rule, turn.client, turn.protocol) == ("main", "generic/main", "generic", "messages")
    assert turn.completion_id.startswith("msg_")
    assert {"user": "u7", "metadata": {"a": "b"}, "session_id": "s1"}.items() <= turn.asked.items()
    assert (turn.session.client, turn.session.named_by) == ("generic", "header")


def test_a_key_that_does_not_learn_makes_turns_that_do_not(key):
    key.learns = False
    assert not begin(key).learns


def test_the_previous_reply_decides_where_it_is_named(key, ana):
    first = ended(begin(key, session_id=""))
    twin = ended(begin(key, session_id=""))
    goes_on = begin(key, more("Hello."), b"2", session_id="", previous=first.completion_id)
    assert (goes_on.follows_id, goes_on.session_id) == (first.pk, first.session_id)
    assert Turn.objects.get(pk=twin.pk).next_state == []
    other, _ = ApiKey.objects.issue(ana, "phone")
    assert begin(other, more("Hello."), b"2", session_id="", previous=first.completion_id).follows_id is None


def test_no_main_turn_follows_a_side_one_by_its_name(key):
    aside = ended(begin(key, turn_type="side"))
    goes_on = begin(key, more("Hello."), b"2", previous=aside.completion_id)
    assert (goes_on.follows_id, goes_on.session_id) == (None, aside.session_id)
    assert Turn.objects.get(pk=aside.pk).next_state == []


def test_few_questions_are_asked_of_the_database(key, django_assert_max_num_queries):
    first = ended(begin(key))
    with django_assert_max_num_queries(11):  # and one for the live checkpoint, which the door asks for
        begin(key, more("Hello."), b"2")
    assert Turn.objects.get(pk=first.pk).next_state


def test_a_turn_that_was_side_is_paired_when_a_person_puts_it_on_the_main_line(key, ana):
    first = ended(begin(key))
    turn = ended(side(key, more("Hello.")), "Yes?")
    last = ended(begin(key, [*more("Hello."), assistant("Yes?"), user("Go on.")], b"3"))

    resorting.resort(turn, "main", by=ana)

    turn.refresh_from_db()
    assert (turn.line, turn.sorted_by, turn.follows_id) == ("main", ana, first.pk)
    assert (turn.status, turn.next_state) == ("observed", [user("Go on.")])
    assert Turn.objects.get(pk=first.pk).next_state == [user("And now?")]
    assert Turn.objects.get(pk=last.pk).follows_id == turn.pk


def test_a_turn_that_a_person_takes_off_the_main_line_says_nothing_any_more(key, ana):
    first = ended(begin(key))
    turn = ended(begin(key, more("Hello."), b"2"), "Yes?")
    last = ended(begin(key, [*more("Hello."), assistant("Yes?"), user("Go on.")], b"3"))
    Turn.objects.get(pk=first.pk).move(Turn.Status.JUDGED)
    Turn.objects.get(pk=turn.pk).move(Turn.Status.JUDGED)

    resorting.resort(turn, "side", by=ana)

    first.refresh_from_db()
    turn.refresh_from_db()
    assert (turn.line, turn.status, turn.chain, turn.follows_id) == ("side", "observed", "", None)
    assert not turn.is_trainable
    assert (first.status, first.next_state) == ("observed", [])
    assert Turn.objects.get(pk=last.pk).follows_id is None


def test_the_next_words_count_when_the_first_are_taken_off(key, ana):
    first = ended(begin(key))
    wrong = ended(begin(key, more("Hello.", "Housekeeping"), b"2"))
    begin(key, more("Hello.", "Really."), b"3")
    resorting.resort(wrong, "side", by=ana)
    assert Turn.objects.get(pk=first.pk).next_state == [user("Really.")]


def test_a_correction_and_its_opposite_leave_all_as_it_was(key, ana):
    first = ended(begin(key))
    turn = ended(begin(key, more("Hello."), b"2"), "Yes?")
    begin(key, [*more("Hello."), assistant("Yes?"), user("Go on.")], b"3")
    before = [(t.follows_id, t.next_state, t.chain, t.line) for t in Turn.objects.order_by("position")]
    resorting.resort(turn, "side", by=ana)
    resorting.resort(turn, "main", by=ana)
    assert [(t.follows_id, t.next_state, t.chain, t.line) for t in Turn.objects.order_by("position")] == before
    assert first.pk


def test_a_reply_that_is_being_written_cannot_be_sorted(key, ana):
    with pytest.raises(turns.TurnUnfinished):
        resorting.resort(begin(key), "side", by=ana)


def test_a_message_opens_a_closed_conversation_again(key):
    first = ended(begin(key))
    sessions.close(first.session)
    assert Turn.objects.get(pk=first.pk).status == "closed"
    begin(key, more("Hello."), b"2")
    held = Turn.objects.select_related("session").get(pk=first.pk)
    assert (held.status, held.session.closed_at) == ("observed", None)


def test_a_reply_that_ends_after_its_conversation_was_closed_is_closed_and_can_be_continued(key):
    first = begin(key)
    assert sessions.close(first.session) == 0
    first = ended(first)
    assert (first.status, first.finish_reason, first.text) == ("closed", "stop", "Hello.")
    assert begin(key, more("Hello."), b"2").follows_id == first.pk
    assert Turn.objects.get(pk=first.pk).status == "observed"


def test_closing_a_conversation_that_was_deleted_changes_nothing(key):
    session = begin(key).session
    Session.objects.filter(pk=session.pk).delete()
    assert sessions.close(session) == 0


def test_closing_idle_conversations_leaves_those_that_are_answered(key):
    answering = begin(key)
    idle = ended(begin(key, session_id="s2", body=b"2"))
    Session.objects.update(active_at=timezone.now() - timedelta(seconds=100))
    assert sessions.close_idle(60) == 1
    assert sessions.close_idle(60) == 0
    assert Turn.objects.get(pk=idle.pk).status == "closed"
    assert Turn.objects.get(pk=answering.pk).session.closed_at is None


def test_idle_conversations_are_closed_a_few_at_a_time(key):
    for n in range(3):
        ended(begin(key, session_id=f"s{n}", body=b"%d" % n))
    Session.objects.update(active_at=timezone.now() - timedelta(seconds=100))
    assert [sessions.close_idle(60, most=2), sessions.close_idle(60, most=2)] == [2, 1]


@pytest.mark.parametrize("begun", [False, True])
def test_a_key_that_was_set_to_serve_only_after_it_was_let_in_teaches_nothing(key, begun):
    first = ended(begin(key)) if begun else None
    ApiKey.objects.filter(pk=key.pk).update(learns=False)
    assert key.learns  # as it was read when the request came in
    turn = begin(key, more(first.text) if first else HI, b"now")
    assert not turn.learns
    assert not Turn.objects.get(pk=turn.pk).learns
