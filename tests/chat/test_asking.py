"""One request is one turn: tried again it is the same, asked anew it is another, and what it is goes on the record."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.utils import timezone

from chat import asking, resorting, sessions, turns
from chat.api import streaming
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import replies, retries
from chat.replying.retries import KeyReused
from chat.requests import Ask, PageSession
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.conftest import assistant, reply_to, until, user

pytestmark = pytest.mark.django_db

HI = [user("Hi")]
COUNTED = {"x-stainless-retry-count": "1"}


def begin(key, messages=HI, body=b"hi", n=1, **about):
    headers = about.pop("headers", {})
    about.setdefault("session_id", "s1")
    asked = Ask(messages, Sampling(), Checkpoint.live(), n=n, body=body, headers=headers, **about)
    made = asking.open_turns(key, asked)
    return made if n > 1 else made[0]


def ended(turn, text="Hello.", reason="stop"):
    whole = reason in ("stop", "length", "tool_calls")
    status = Turn.Status.SERVED if whole else Turn.Status.CLOSED
    replies.finish(
        turn, status, {"text": text, "finish_reason": reason, "response_ids": [1], "error": "" if whole else "x"}
    )
    return Turn.objects.get(pk=turn.pk)


def more(text, words="And now?"):
    return [*HI, assistant(text), user(words)]


# one way in


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("path", ["/chats/", "/v1/chat/completions"])
async def test_a_page_and_a_door_open_turns_by_the_same_function(page, key, engine, monkeypatch, path):
    asked = []
    monkeypatch.setattr(asking, "open_turns", lambda asker, ask: asked.append((asker, ask)) or refuse())

    def refuse():
        raise turns.NothingSaid("Not today.")

    headers = {"Authorization": f"Bearer {key.secret}"}
    body = json.dumps({"messages": HI})
    message = {"text": "Hi", "message_id": str(uuid.uuid4())}
    told = await (
        page.post(path, message) if path == "/chats/" else page.post(path, body, "application/json", headers=headers)
    )
    assert (told.status_code, "Not today." in told.content.decode()) == (400, True)
    ((asker, ask),) = asked
    assert isinstance(ask, Ask)
    assert isinstance(asker, PageSession if path == "/chats/" else ApiKey)


def test_a_page_and_a_door_open_the_same_turn(key, ana):
    sampling = Sampling(max_new_tokens=turns.MAX_NEW_TOKENS)
    ask = Ask(HI, sampling, Checkpoint.for_user(ana))
    made = [asking.open_turns(asker, ask)[0] for asker in (key, PageSession(ana))]

    of_door, of_page = ((turn.messages, turn.prompt_ids, turn.sampling, turn.checkpoint_id, turn.line) for turn in made)
    assert of_door == of_page
    assert [turn.session.key_id for turn in made] == [key.pk, None]


@pytest.mark.parametrize("asked_by", ["page", "key"])
def test_what_was_refused_leaves_no_empty_session(key, ana, asked_by):
    asker = PageSession(ana) if asked_by == "page" else key
    with pytest.raises(turns.ContextTooLong):
        asking.open_turns(asker, Ask([user("word " * 3000)], Sampling(), Checkpoint.live()))
    assert not Session.objects.exists()


def test_a_first_message_that_was_sent_before_is_found_without_its_session(ana):
    ask = Ask(HI, Sampling(), Checkpoint.live(), protocol="")
    first, second = (asking.open_turns(PageSession(ana, completion_id="chatcmpl-1"), ask)[0] for _ in range(2))
    assert (second.pk, second.session_id, first.repeated, second.repeated) == (first.pk, first.session_id, False, True)
    assert Session.objects.count() == 1


# retries


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_the_same_body_after_a_reply_that_was_lost_is_the_same_turn(key, reason):
    first = ended(begin(key), "Half a", reason)
    again = begin(key)
    assert (again.pk, again.completion_id, again.repeated) == (first.pk, first.completion_id, False)
    held = Turn.objects.get(pk=first.pk)
    assert (held.status, held.text, held.response_ids, held.finish_reason, held.error) == ("answering", "", [], "", "")
    assert held.asked["event"] == "retry"
    assert Turn.objects.count() == 1


def test_the_same_body_after_a_whole_reply_is_a_regeneration(key):
    first = ended(begin(key))
    second = begin(key)
    assert second.pk != first.pk
    assert (second.asked["event"], second.asked["of"]) == ("regeneration", first.completion_id)
    first.refresh_from_db()
    assert (first.next_state, first.status, first.marks) == ([], "served", ["regenerated"])


def test_a_counted_retry_of_a_whole_reply_has_it_again(key):
    first = ended(begin(key))
    again = begin(key, headers=COUNTED)
    assert (again.pk, again.repeated) == (first.pk, True)


def test_an_idempotency_key_stands_for_its_request_whatever_came_between(key):
    named = {"idempotency-key": "k1"}
    first = ended(begin(key, headers=named))
    ended(begin(key, more("Hello."), b"more"))
    again = begin(key, headers=named)
    assert (again.pk, again.repeated) == (first.pk, True)
    with pytest.raises(KeyReused):
        begin(key, more("Hello."), b"other", headers=named)


def test_keys_do_not_share_idempotency_keys(key, ana):
    other, _ = ApiKey.objects.issue(ana, "phone")
    named = {"idempotency-key": "k1"}
    assert begin(key, headers=named).pk != begin(other, headers=named).pk


def test_two_identical_requests_at_once_are_two_turns(key):
    assert begin(key).pk != begin(key).pk
    assert begin(key).asked["event"] == "parallel"


def test_a_failed_reply_that_the_conversation_has_left_behind_is_not_taken_up_again(key):
    failed = ended(begin(key), "Half a", "abort")
    ended(begin(key, [user("Rather this")], b"rather"))
    assert begin(key).pk != failed.pk


def test_a_failed_reply_is_not_taken_up_again_long_after(key):
    failed = ended(begin(key), "Half a", "abort")
    Turn.objects.filter(pk=failed.pk).update(created_at=timezone.now() - timedelta(seconds=121))
    again = begin(key)
    assert again.pk != failed.pk
    assert (again.asked["event"], again.asked["of"]) == ("retry", failed.completion_id)
    Turn.objects.filter(pk=failed.pk).update(created_at=timezone.now() - timedelta(seconds=121))
    ended(again, "Half a", "abort")
    assert begin(key, headers=COUNTED).pk == again.pk


def test_another_bodys_retry_is_another_turn(key):
    failed = ended(begin(key), "Half a", "abort")
    assert begin(key, body=b"hi, but otherwise").pk != failed.pk


@pytest.mark.parametrize("about", [{"session_id": "s2"}, {"turn_type": "side"}])
@pytest.mark.parametrize("headers", [{}, COUNTED])
def test_the_same_body_for_another_session_or_line_is_another_turn(key, about, headers):
    failed = ended(begin(key), "Half a", "abort")
    other = begin(key, headers=headers, **about)
    assert other.pk != failed.pk
    assert (other.session.external_id, other.line) == (
        about.get("session_id", "s1"),
        about.get("turn_type", "main"),
    )
    failed.refresh_from_db()
    assert (failed.session.external_id, failed.line, failed.status) == ("s1", "main", "closed")


def test_an_idempotency_key_does_not_stand_for_the_same_body_in_another_session(key):
    named = {"idempotency-key": "k1"}
    ended(begin(key, headers=named))
    with pytest.raises(KeyReused):
        begin(key, headers=named, session_id="s2")


def test_choices_are_turns_of_one_request(key):
    made = begin(key, n=3)
    first = made[0].completion_id
    assert [turn.completion_id for turn in made] == [first, f"{first}.1", f"{first}.2"]
    assert [turn.position for turn in made] == [0, 1, 2]
    whole, failed, _ = (ended(turn, f"{n}", "stop" if n != 1 else "abort") for n, turn in enumerate(made))
    again = begin(key, n=3)
    assert [(turn.pk, turn.repeated) for turn in again] == [
        (whole.pk, True),
        (failed.pk, False),
        (made[2].pk, True),
    ]
    ended(again[1], "1")
    follower = begin(key, more("2"), b"more")
    assert follower.follows_id == made[2].pk
    assert [Turn.objects.get(pk=turn.pk).next_state for turn in made] == [[], [], [user("And now?")]]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
def test_of_two_retries_at_once_one_writes(key):
    failed = ended(begin(key), "Half a", "abort")
    made, start = [], threading.Barrier(2)

    def retry():
        start.wait(10)
        made.append(begin(key, headers={"idempotency-key": ""} | COUNTED))
        connections.close_all()

    threads = [threading.Thread(target=retry) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [turn.pk for turn in made] == [failed.pk] * 2
    assert sorted(turn.repeated for turn in made) == [False, True]


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_repeated_reply_is_said_again_and_the_engine_is_not_asked(key, engine):
    engine.says("Hello.")
    first = await reply_to(await sync_to_async(begin)(key), engine)
    again = await sync_to_async(begin)(key, headers=COUNTED)
    asked = len(engine.calls)
    said = [spoken async for spoken in replies.reply(again, engine)]
    assert ("".join(spoken.text for spoken in said), said[-1].finish_reason) == (first.text, "stop")
    assert len(engine.calls) == asked
    assert (await Turn.objects.aget(pk=first.pk)).moved_at == first.moved_at


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_retry_waits_for_a_writer_that_is_still_at_it_and_takes_over_when_it_gives_up(key, engine):
    engine.says("Hello, captain.", times=2)
    engine.hold(after=1)
    first = await sync_to_async(begin)(key)
    writer = asyncio.create_task(reply_to(first, engine))
    await asyncio.to_thread(engine.holding.wait, 10)
    again = await sync_to_async(begin)(key, headers=COUNTED)
    assert (again.pk, again.repeated) == (first.pk, True)
    waiting = asyncio.create_task(reply_to(again, engine))

    writer.cancel()
    await asyncio.gather(writer, return_exceptions=True)

    async def taken_over() -> bool:
        return (await Turn.objects.aget(pk=first.pk)).asked.get("event") == "retry"

    await until(taken_over, "the retry writes")
    engine.release()
    assert (await asyncio.wait_for(waiting, 20)).text == "Hello, captain."
    assert await Turn.objects.acount() == 1
    assert not again.repeated  # it is this one's own now: to be closed if its reader leaves


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_retry_whose_reader_leaves_while_it_takes_over_leaves_nothing_open(key, monkeypatch):
    taken, gate = threading.Event(), threading.Event()
    real = retries.reopen_reply

    def slow(*args):
        try:
            return real(*args)
        finally:
            taken.set()
            gate.wait(10)

    named = {"idempotency-key": "k1"}
    first = await sync_to_async(begin)(key, headers=named)
    again = await sync_to_async(begin)(key, headers=named)
    assert again.repeated
    await sync_to_async(ended)(first, "Half a", "abort")
    monkeypatch.setattr(retries, "reopen_reply", slow)
    reading = asyncio.create_task(streaming.answer_whole([again]))
    await asyncio.to_thread(taken.wait, 10)
    reading.cancel()
    gate.set()
    await asyncio.gather(reading, return_exceptions=True)

    async def closed() -> bool:
        row = await Turn.objects.aget(pk=first.pk)
        return (row.status, row.finish_reason, row.asked["event"]) == ("closed", "abort", "retry")

    await until(closed, "the row is closed")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_retry_of_a_reply_whose_process_was_killed_is_written_anew(key, engine):
    engine.says("Hello, captain.")
    first = await sync_to_async(begin)(key)
    await Turn.objects.filter(pk=first.pk).aupdate(moved_at=timezone.now() - timedelta(hours=5))
    again = await sync_to_async(begin)(key, headers=COUNTED)
    assert (again.pk, again.repeated) == (first.pk, False)  # it is this request's already
    held = await asyncio.wait_for(reply_to(again, engine), 10)
    assert (held.text, held.status, held.error) == ("Hello, captain.", "served", "")


# what is asked instead


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


# a history that its client rewrote


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


# the rest of the record


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


# corrections


def side(key, messages, body=b"side"):
    return begin(key, messages, body, turn_type="side")


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


# the end of a conversation


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
