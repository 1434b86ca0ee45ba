"""A tab sees its own session move, by whichever tab or worker, and no other."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async

from chat import branches, session_sockets, turns
from chat.models import Session, Turn
from chat.replying import live_replies
from chat.tools import rounds
from checkpoints.models import Checkpoint
from feedback.models import Feedback
from tests import sockets
from tests.chat.conftest import assistant, open_turn, reply_to, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

HI = [user("Say hello")]


def Tab(session: Session, person) -> sockets.Tab:
    return sockets.Tab(f"/ws/chat/{session.pk}/", person)


@pytest.mark.parametrize("who", ["ben", "no person"])
async def test_no_person_watches_what_is_not_theirs(session, ben, who):
    async with Tab(session, ben if who == "ben" else None) as tab:
        assert await tab.ends() == (4403 if who == "ben" else 4401)
        await live_replies.publish(await open_turn(session, HI), "A secret")
        assert await tab.is_silent()


async def test_a_reply_grows_in_every_tab_and_ends_whole(session, ana, engine, monkeypatch):
    monkeypatch.setattr(live_replies, "FRAME_S", 0)
    engine.says("Hello, **captain**.")
    async with Tab(session, ana) as one, Tab(session, ana) as other:
        turn = await open_turn(session, HI)
        await live_replies.speak(turn, engine)
        for tab in (one, other):
            assert "Say hello" in await tab.sees('hx-swap-oob="beforeend:#turns"')
            assert f'id="said-{turn.pk}"' in await tab.sees("Hello,")
            assert "captain" in await tab.sees("<strong>")
            whole = await tab.sees("announcer")
            assert f'id="turn-{turn.pk}"' in whole
            assert "served" in whole


async def test_a_tab_that_comes_late_is_shown_what_there_is(session, ana, engine):
    turn = await reply_to(await open_turn(session, HI), engine)
    async with Tab(session, ana) as tab:
        assert turn.text in await tab.sees(f'id="turn-{turn.pk}"')


async def test_a_reply_goes_on_with_no_page_watching(session, engine):
    turn = await open_turn(session, HI)
    await rounds.start(live_replies.speak(turn, engine))
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.SERVED


async def test_a_reply_goes_on_without_redis(session, engine, monkeypatch):
    class Away:
        async def group_send(self, *args: object) -> None:
            raise ConnectionRefusedError

    monkeypatch.setattr(live_replies, "get_channel_layer", Away)
    turn = await open_turn(session, HI)
    await live_replies.speak(turn, engine)
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.SERVED


async def test_nothing_of_a_reply_is_left_waiting_when_it_has_ended(session, engine, monkeypatch):
    """A client of Redis that loses a cancellation on its way left the painter waiting for ever: "Task was destroyed but
    it is pending", said the collector."""
    lost: list[str] = []

    class Deaf:
        async def group_send(self, group: str, event: dict) -> None:
            try:
                await asyncio.Event().wait()  # an answer that does not come
            except asyncio.CancelledError:
                lost.append(group)

    monkeypatch.setattr(live_replies, "get_channel_layer", Deaf)
    before = asyncio.all_tasks()
    turn = await open_turn(session, HI)
    await asyncio.wait_for(live_replies.speak(turn, engine), 10)

    assert lost  # the reply ended while a picture of it was on its way
    assert asyncio.all_tasks() == before
    assert (await Turn.objects.aget(pk=turn.pk)).status == Turn.Status.SERVED


async def test_a_failure_is_shown_where_the_reply_would_be(session, ana, engine):
    engine.goes_down()
    async with Tab(session, ana) as tab:
        await live_replies.speak(await open_turn(session, HI), engine)
        assert "The engine does not answer" in await tab.sees('role="alert"')


async def test_another_try_takes_the_place_of_the_one_before(session, ana, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    async with Tab(session, ana) as tab:
        await open_turn(session, HI)
        fragment = await tab.sees("2/2")
        assert 'data-after=""' in fragment
        assert f"/turns/{first.pk}/show/" in fragment


async def test_a_turn_of_a_branch_that_is_not_shown_is_for_pages_that_have_it(session, ana, engine):
    first = await reply_to(await open_turn(session, HI), engine)
    second = await open_turn(session, HI)
    await Session.objects.filter(pk=session.pk).aupdate(head=first.pk)
    async with Tab(session, ana) as tab:
        await live_replies.speak(second, engine)
        fragment = await tab.sees('class="turn served"')
        assert f'id="turn-{second.pk}"' in fragment
        assert "data-elsewhere" in fragment
        assert 'id="announcer"' not in fragment


async def test_a_thumb_shows_in_the_other_tab(session, ana, engine):
    turn = await reply_to(await open_turn(session, HI), engine)
    async with Tab(session, ana) as tab:
        await tab.sees(f'id="chip-{turn.pk}"')
        await sync_to_async(Feedback.objects.give)(turn, by=ana, kind="thumb", value=1)
        fragment = await tab.sees("being judged")
        assert 'aria-label="Good reply" aria-pressed="true"' in fragment
        assert "textarea" not in fragment  # what a person is typing there stays


async def test_a_chip_that_grows_by_itself_is_drawn_again(session, ana, engine, monkeypatch):
    monkeypatch.setattr(session_sockets, "RECHECK_S", 0.01)
    turn = await reply_to(await open_turn(session, HI), engine)
    await sync_to_async(turns.reopen)(turn)
    async with Tab(session, ana) as tab:
        for _ in range(3):
            await tab.sees("data-growing")


async def test_chips_that_stand_still_are_not_drawn_again(session, ana, engine, monkeypatch):
    monkeypatch.setattr(session_sockets, "RECHECK_S", 0.01)
    still = await reply_to(await open_turn(session, HI), engine)
    moving = await reply_to(await open_turn(session, [user("Say more")]), engine)
    await sync_to_async(turns.reopen)(moving)
    async with Tab(session, ana) as tab:
        assert f'id="chip-{still.pk}"' in await tab.sees("data-growing")  # what moved before the socket was there
        for _ in range(2):
            assert f'id="chip-{still.pk}"' not in await tab.sees("data-growing")
        await sync_to_async(Feedback.objects.give)(still, by=ana, kind="thumb", value=1)
        await tab.sees(f'id="chip-{still.pk}"')


async def test_of_a_long_chat_the_chips_of_its_newest_turns_are_drawn(session, ana, engine, monkeypatch):
    monkeypatch.setattr(branches, "SHOWN", 2)
    said = [await reply_to(await open_turn(session, [user(f"Say {n}")]), engine) for n in range(3)]
    async with Tab(session, ana) as tab:
        fragment = await tab.sees(f'id="chip-{said[1].pk}"')
        assert f'id="chip-{said[2].pk}"' in fragment
        assert f'id="chip-{said[0].pk}"' not in fragment


async def test_reasons_show_in_the_other_tab(session, ana, engine):
    turn = await reply_to(await open_turn(session, HI), engine)
    async with Tab(session, ana) as tab:
        await tab.sees(f'id="chip-{turn.pk}"')
        await sync_to_async(Feedback.objects.give)(turn, by=ana, kind="thumb", value=-1, tags=["too long", "my own"])
        fragment = await tab.sees('value="too long" checked')
        assert f'id="reasons-{turn.pk}"' in fragment
        assert 'value="my own" checked' in fragment
        assert 'value="tone">' in fragment


async def test_what_is_written_is_text_in_every_fragment(session, ana, engine):
    engine.says("<script>alert(1)</script>")
    async with Tab(session, ana) as tab:
        turn = await open_turn(session, [user("</div><script>alert(2)</script>")])
        await live_replies.speak(turn, engine)
        fragment = await tab.sees("announcer")
        assert "<script" not in fragment
        assert "&lt;/div&gt;&lt;script&gt;alert(2)" in fragment


async def test_every_tab_hears_who_answers_now(session, ana):
    base = await sync_to_async(Checkpoint.live)()
    await sync_to_async(base.move)(Checkpoint.Status.RETIRED)
    async with Tab(session, ana) as tab:
        await Checkpoint.objects.acreate(number=4, status="live", adapter="talkback-4-x")
        assert "talkback@4" in await tab.sees("answers now")


async def test_an_api_chat_can_be_watched_too(key, ana, engine):
    session = await Session.objects.acreate(user=ana, key=key)
    first = await reply_to(await open_turn(session, HI), engine)
    async with Tab(session, ana) as tab:
        await open_turn(session, [*HI, assistant(first.text), user("More, please")])
        assert "More, please" in await tab.sees("answering")
