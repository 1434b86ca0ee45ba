"""One request is one turn: tried again it is the same, and asked anew it is another."""

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

from chat import asking, turns
from chat.api import streaming
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from chat.replying import replies, retries
from chat.replying.retries import KeyReused
from chat.requests import Ask, PageSession
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling
from tests.chat.asking.turns import COUNTED, HI, begin, ended, more
from tests.chat.conftest import reply_to, until, user

pytestmark = pytest.mark.django_db


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
