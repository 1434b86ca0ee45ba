"""Whose a reply is: its process's for as long as that lives, and free the moment it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from chat import turns
from chat.models import Session, Turn
from chat.replying import replies, retries, writers
from tests.chat.asking.turns import COUNTED, begin
from tests.chat.conftest import ask_in, open_turn, reply_to, until, user

HI = [user("Hello")]
NAMED = {"idempotency-key": "k1"}


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
@pytest.mark.parametrize("headers", [NAMED, COUNTED, {}], ids=["key", "count", "same body"])
async def test_a_retry_after_web_died_is_written_at_once(key, engine, other, headers):
    engine.says("Hello, captain.")
    first = await sync_to_async(begin)(key, headers=NAMED if headers is NAMED else {})
    await other.takes(first)

    other.dies()

    again = await sync_to_async(begin)(key, headers=headers)
    assert (again.pk, again.repeated) == (first.pk, False)
    assert (await reply_to(again, engine)).text == "Hello, captain."


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_retry_that_already_waits_takes_over_when_web_dies(key, engine, other, monkeypatch):
    engine.says("Hello, captain.")
    first = await sync_to_async(begin)(key, headers=NAMED)
    await other.takes(first)
    again = await sync_to_async(begin)(key, headers=NAMED)
    assert again.repeated  # it lives, and writes
    looks, real = [], retries.writers.is_stranded
    monkeypatch.setattr(retries.writers, "is_stranded", lambda *of: looks.append(of) or real(*of))
    waiting = asyncio.create_task(reply_to(again, engine))

    async def has_looked() -> bool:
        return len(looks) > 1

    await until(has_looked, "it has looked, and found it alive")
    assert not waiting.done()

    other.dies()

    assert (await asyncio.wait_for(waiting, 5)).text == "Hello, captain."  # of 60 s that a silence would take


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_reply_is_not_taken_from_a_process_that_lives(key, engine, other):
    first = await sync_to_async(begin)(key, headers=NAMED)
    await other.takes(first)
    silent = timezone.now() - timedelta(minutes=5)  # a database that was locked for long, say
    await Turn.objects.filter(pk=first.pk).aupdate(moved_at=silent)

    os.kill(other.process.pid, signal.SIGSTOP)  # frozen is not dead
    try:
        assert await sync_to_async(writers.close_stranded)() == 0
        assert (await sync_to_async(begin)(key, headers=NAMED)).repeated
    finally:
        os.kill(other.process.pid, signal.SIGCONT)


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_the_next_message_of_a_chat_waits_for_no_dead_process(session, engine, other):
    first = await open_turn(session, HI)
    await other.takes(first)
    with pytest.raises(turns.TurnUnfinished):
        await open_turn(session, [user("Hello?")])

    other.dies()

    assert (await open_turn(session, [user("Hello?")])).status == Turn.Status.ANSWERING
    gone = await Turn.objects.aget(pk=first.pk)
    assert (gone.status, gone.finish_reason) == (Turn.Status.CLOSED, "error")


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_files_of_dead_processes_are_cleared_once_no_reply_asks_for_them(ana, engine, other, data_dir):
    first = await open_turn(await Session.objects.acreate(user=ana), HI)  # of this very process
    second = await open_turn(await Session.objects.acreate(user=ana), HI)
    await other.takes(second)
    there = {first.writer, other.name}
    assert there <= {file.name for file in (data_dir / "writers").iterdir()}

    other.dies()
    await sync_to_async(writers.clear)()
    assert (data_dir / "writers" / other.name).exists()  # by it the reply is known to be lost

    await sync_to_async(writers.close_stranded)()
    await sync_to_async(writers.clear)()
    assert {file.name for file in (data_dir / "writers").iterdir()} & there == {first.writer}


def test_two_who_look_at_once_take_neither_for_the_living(other, tmp_path):
    import fcntl

    assert writers.look(other.name) == "lives"
    other.dies()
    with (writers._folder() / other.name).open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)  # as another one who looks at this moment
        assert writers.look(other.name) == "gone"
    assert writers.look("0" * 32) == writers.look("") == "unknown"


def test_where_no_file_can_be_made_replies_are_begun_all_the_same(session, settings, tmp_path):
    (tmp_path / "writers").write_text("no folder")
    settings.DATA_DIR = tmp_path
    assert ask_in(session, HI).writer == ""


@pytest.mark.django_db(transaction=True, serialized_rollback=True)
async def test_a_reply_that_could_not_be_written_down_is_closed_as_soon_as_it_can_be(session, engine, monkeypatch):
    engine.says("Hello, captain.")
    monkeypatch.setattr(replies, "CLOSE_S", 0.05)
    finish, is_full = replies.finish, True

    tries = []

    def on_a_full_disk(*args):
        tries.append(args)
        if is_full:
            raise OperationalError("database or disk is full")
        return finish(*args)

    monkeypatch.setattr(replies, "finish", on_a_full_disk)
    turn = await open_turn(session, HI)
    with pytest.raises(OperationalError):
        await reply_to(turn, engine)

    async def has_tried_again() -> bool:
        return len(tries) > 2

    await until(has_tried_again, "the reply's end is tried again")
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.ANSWERING

    is_full = False

    async def closed() -> bool:
        row = await Turn.objects.aget(pk=turn.pk)
        return row.status == Turn.Status.CLOSED

    await until(closed, "the row is closed")
    row = await Turn.objects.aget(pk=turn.pk)
    assert (row.finish_reason, row.text) == ("error", "Hello, captain.")
    assert "disk of this Talkback is full" in row.error
