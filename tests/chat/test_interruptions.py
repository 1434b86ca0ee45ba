"""A reply whose engine, reader or writer goes away goes on, or ends with what was said."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError
from django.utils import timezone

from chat.models import Turn
from chat.rendering.renderer import Renderer
from chat.replying import replies, writers
from checkpoints.loading import ensure_loaded
from checkpoints.models import Checkpoint
from core import threads
from gpu_workers.errors import EngineUnavailable, KeyRefused
from gpu_workers.types import Delta, Sampling
from tests.chat.conftest import ask_in, open_turn, reply_to, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)


HI = [user("Say hello")]


@pytest.fixture
def adapted(transactional_db):
    """A live checkpoint that needs its adapter in the engine."""
    Checkpoint.live().move(Checkpoint.Status.RETIRED)
    return Checkpoint.objects.create(number=1, status="live", adapter="talkback-1-abcd", path="checkpoints/1")


async def test_weights_the_engine_does_not_hold_are_brought_to_it(session, engine, adapted, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    turn = await reply_to(await open_turn(session, HI), engine)
    assert (turn.status, turn.error) == (Turn.Status.SERVED, "")
    assert turn.checkpoint_id == adapted.pk
    assert list(engine.loaded) == [adapted.adapter]
    assert engine.asked("stream")[-1].adapter == adapted.adapter


async def test_a_turn_is_answered_by_the_weights_that_were_live_when_it_was_asked(
    session, engine, adapted, monkeypatch
):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    turn = await open_turn(session, HI)
    base = await Checkpoint.objects.aget(number=0)
    await sync_to_async(base.go_live)()
    await reply_to(turn, engine)
    assert engine.asked("stream")[-1].adapter == adapted.adapter


async def test_an_engine_that_restarts_costs_time_and_no_reply(session, engine, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    engine.goes_down()
    deltas = []
    async with aclosing(replies.reply(turn := await open_turn(session, HI), engine)) as reply:
        async for delta in reply:
            deltas.append(delta)
            if len(deltas) == 2:
                assert deltas[0].text == deltas[1].text == ""  # signs of life while the engine is away
                engine.comes_back()
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.SERVED


async def test_an_engine_without_room_for_the_weights_is_waited_for(session, engine, adapted, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    turn = await open_turn(session, HI)
    tries = []

    async def crowded(*args):
        tries.append(args)
        if len(tries) == 1:
            raise EngineUnavailable("Three adapters are loaded, and no more fit.")
        await ensure_loaded(*args)

    monkeypatch.setattr(replies, "ensure_loaded", crowded)
    assert (await reply_to(turn, engine)).status == Turn.Status.SERVED
    assert len(tries) == 2


async def test_an_engine_that_stays_away_ends_the_reply_with_its_sentence(session, engine):
    engine.goes_down()
    turn = await open_turn(session, HI)
    with pytest.raises(EngineUnavailable):
        await reply_to(turn, engine)
    turn = await Turn.objects.aget(pk=turn.pk)
    assert turn.status == Turn.Status.CLOSED
    assert turn.error == "The engine does not answer (scripted)."


async def test_a_key_the_engine_refuses_ends_the_reply_at_once(session, engine, monkeypatch):
    asked = []

    async def refused(*args, **kwargs):
        asked.append(args)
        raise KeyRefused("The engine refuses this key.")
        yield

    monkeypatch.setattr(engine, "stream", refused)
    turn = await open_turn(session, HI)
    with pytest.raises(EngineUnavailable) as failure:
        await reply_to(turn, engine)
    assert (failure.value.code, failure.value.status, len(asked)) == ("engine_unavailable", 503, 1)


async def test_an_engine_that_dies_in_mid_reply_leaves_what_was_said(session, engine):
    engine.says("Hello, captain, and welcome.")
    turn = await open_turn(session, HI)

    async def read() -> None:
        async for delta in replies.reply(turn, engine):
            if delta.text:
                engine.goes_down()

    with pytest.raises(EngineUnavailable):
        await read()
    turn = await Turn.objects.aget(pk=turn.pk)
    assert turn.finish_reason == "error"
    assert turn.text
    assert len(turn.response_ids) == len(turn.logprobs) > 0


async def test_an_engine_that_restarts_in_mid_reply_goes_on_where_it_was(session, engine, tiny_model, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    words = "Guten Tag, schöner Regenbogen."
    renderer = Renderer.for_model(tiny_model)
    ids = [*renderer.encode(words), 2]
    seam = next(n for n in range(len(ids)) if renderer.decode(ids[:n]).endswith("sch\ufffd"))  # within the ö

    class Mortal(type(engine)):
        def _tokens(self, line, sampling):
            return ids[len(self.calls[-1].prompt_ids) - len(self.calls[0].prompt_ids) :], "stop"

        async def stream(self, *args, **kwargs):
            async for delta in super().stream(*args, **kwargs):
                said.append(delta)
                yield delta
                if len(said) == seam:
                    self.goes_down()

    read: list[str] = []
    said: list[Delta] = []
    engine.__class__ = Mortal
    turn = await open_turn(session, HI, sampling=Sampling(max_new_tokens=100))
    async with aclosing(replies.reply(turn, engine)) as reply:
        async for spoken in reply:
            read.append(spoken.text)
            if engine.down and not spoken.ids:  # a sign of life while it is away
                engine.comes_back()

    turn = await Turn.objects.select_related("session").aget(pk=turn.pk)
    rest = engine.asked("stream")[-1]
    assert "".join(read) == turn.text == words
    assert turn.response_ids == ids
    assert turn.logprobs == [logprob for delta in said for logprob in delta.logprobs]
    assert list(rest.prompt_ids) == turn.prompt_ids + ids[:seam]
    assert rest.sampling.max_new_tokens == 100 - seam
    assert (turn.status, turn.finish_reason, turn.marks) == (Turn.Status.SERVED, "stop", ["resumed"])
    assert turn.is_trainable


async def test_a_reply_held_to_a_schema_ends_with_the_engine_that_wrote_it(session, engine, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    engine.says("Hello, captain, and welcome.")
    turn = await open_turn(session, HI, sampling=Sampling(json_schema="{}"))

    async def read() -> None:
        async for spoken in replies.reply(turn, engine):
            if spoken.text:
                engine.goes_down()

    with pytest.raises(EngineUnavailable):
        await read()
    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.finish_reason, turn.marks) == (Turn.Status.CLOSED, "error", [])


async def test_weights_that_are_gone_after_a_restart_are_brought_again(session, engine, adapted, monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 10)
    engine.says("Hello, captain, and welcome.")
    turn = await open_turn(session, HI)
    async with aclosing(replies.reply(turn, engine)) as reply:
        async for spoken in reply:
            if spoken.text and len(engine.asked("stream")) == 2:  # the first found no adapter
                engine.goes_down()
            if engine.down and not spoken.ids:
                engine.loaded.clear()
                engine.comes_back()
    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.marks) == (Turn.Status.SERVED, ["resumed"])
    assert list(engine.loaded) == [adapted.adapter]
    assert [call.adapter for call in engine.asked("stream")][-1] == adapted.adapter
    assert len(turn.response_ids) == len(turn.logprobs)


async def test_a_reader_that_leaves_stops_the_engine(session, engine):
    engine.says("Hello, captain, and welcome.")
    turn = await open_turn(session, HI)
    async with aclosing(replies.reply(turn, engine)) as reply:
        async for delta in reply:
            if delta.text:
                break
    assert engine.aborted == [turn.completion_id]
    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


async def test_stopping_ends_a_reply_wherever_it_is_written(session, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=2)
    turn = await open_turn(session, HI)
    writer = asyncio.create_task(reply_to(turn, engine))
    await asyncio.to_thread(engine.holding.wait, 10)

    await replies.stop(turn, engine)  # as another process would: by the row and the engine alone

    turn = await asyncio.wait_for(writer, 10)
    engine.release()
    assert not turn.is_trainable
    assert ("abort", turn.completion_id) in engine.admin
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


async def test_stopping_frees_a_turn_whose_writer_was_killed(session, engine):
    turn = await open_turn(session, HI)
    await Turn.objects.filter(pk=turn.pk).aupdate(moved_at=timezone.now() - timedelta(seconds=1))
    await replies.stop(turn, engine)
    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "abort")


async def test_stopping_what_has_ended_changes_nothing(session, engine):
    turn = await reply_to(await open_turn(session, HI), engine)
    await replies.stop(turn, engine)
    assert (await Turn.objects.aget(pk=turn.pk)).finish_reason == "stop"
    assert not engine.admin


async def test_a_cancelled_writer_closes_its_turn(session, engine):
    engine.hold(after=1)
    turn = await open_turn(session, HI)
    writer = asyncio.create_task(reply_to(turn, engine))
    await asyncio.to_thread(engine.holding.wait, 10)
    writer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writer
    engine.release()
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.CLOSED


async def test_a_reply_that_is_whole_is_kept_though_its_reader_leaves_before_a_thread_is_free(
    session, engine, monkeypatch
):
    engine.says("Hello, captain.")
    engine.hold(after=1)
    turn = await open_turn(session, HI)
    free, ending = threading.Event(), asyncio.Event()

    def noting(work):
        if getattr(work, "func", None) is replies.finish:
            ending.set()
        return asyncio.ensure_future(sync_to_async(work)())

    writer = asyncio.create_task(reply_to(turn, engine))
    await asyncio.to_thread(engine.holding.wait, 10)
    monkeypatch.setattr(threads, "call", noting)
    busy = asyncio.create_task(sync_to_async(free.wait)(20))
    await asyncio.sleep(0)
    engine.release()
    await asyncio.wait_for(ending.wait(), 10)
    writer.cancel()
    await asyncio.sleep(0)
    free.set()
    await asyncio.gather(writer, busy, return_exceptions=True)
    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.text) == (Turn.Status.SERVED, "Hello, captain.")


async def test_a_writer_that_was_killed_leaves_a_turn_that_is_closed_later(session, engine):
    turn = await open_turn(session, HI)
    await Turn.objects.filter(pk=turn.pk).aupdate(writer="0" * 32)  # on another machine, or in a backup
    assert await sync_to_async(writers.close_stranded)() == 0  # it may still be written
    long_ago = timezone.now() - timedelta(seconds=writers.SILENCE_S + 1)
    await Turn.objects.filter(pk=turn.pk).aupdate(moved_at=long_ago)

    assert await sync_to_async(writers.close_stranded)() == 1

    turn = await Turn.objects.aget(pk=turn.pk)
    assert (turn.status, turn.finish_reason) == (Turn.Status.CLOSED, "error")
    assert "try again" in turn.error
    assert turn.messages == HI


async def test_a_writer_that_lives_says_so(session, engine):
    engine.hold(after=1)
    turn = await open_turn(session, HI)
    long_ago = timezone.now() - timedelta(seconds=writers.SILENCE_S + 1)
    await Turn.objects.filter(pk=turn.pk).aupdate(moved_at=long_ago)
    writer = asyncio.create_task(reply_to(turn, engine))

    async def heard() -> bool:
        return (await Turn.objects.aget(pk=turn.pk)).moved_at > long_ago

    await until(heard, "a beat")
    assert await sync_to_async(writers.close_stranded)() == 0
    engine.release()
    assert (await writer).status == Turn.Status.SERVED


async def test_a_session_that_is_deleted_while_it_is_answered_breaks_nothing(session, engine):
    engine.hold(after=1)
    turn = await open_turn(session, HI)

    async def read() -> None:
        async for _ in replies.reply(turn, engine):
            pass

    writer = asyncio.create_task(read())
    await asyncio.to_thread(engine.holding.wait, 10)
    await session.adelete()
    await asyncio.wait_for(writer, 10)
    engine.release()
    assert not await Turn.objects.filter(pk=turn.pk).aexists()


def test_a_reply_is_kept_though_the_database_ended_a_deadlock(session, monkeypatch):
    turn = ask_in(session, HI)
    tries = []

    def locked(pk):
        tries.append(pk)
        if len(tries) == 1:
            raise OperationalError("deadlock detected")
        return session

    monkeypatch.setattr(replies.sessions, "locked", locked)
    replies.finish(turn, Turn.Status.SERVED, {"text": "Hello.", "finish_reason": "stop"})
    turn.refresh_from_db()
    assert (turn.status, turn.text, len(tries)) == (Turn.Status.SERVED, "Hello.", 2)
