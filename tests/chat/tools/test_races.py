"""Calls whose person, another tab or an operator does something else at the same time."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from chat.models import Session, Turn
from chat.replying import writers
from chat.tools import calls, leases, rounds
from chat.tools.calls import ToolCall
from tests.chat.conftest import until, user
from tests.chat.tools.conftest import all_quiet, calling, calls_of, let_use, mark_safe, shown, turns_of

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

ASK = "What does bread cost?"
PRICE = calling(("price", {"item": "bread"}))
BOTH = calling(("price", {"item": "bread"}), ("put_in", {"item": "bread"}))
"""`price` is safe where it is marked so; `put in` is asked about."""


async def test_a_safe_call_that_waits_with_another_keeps_no_person_from_writing_on(say, engine, session, shop, page):
    await let_use(session, shop, "price", "put in")
    await mark_safe(shop, "price")
    engine.says(BOTH)
    await say(ASK)
    assert [call.status for call in await calls_of(session)] == ["allowed", "waiting"]
    assert "data-at-work" not in await shown(page, session)
    engine.says("Hello.")
    await say("Never mind")
    assert [(call.status, call.result) for call in await calls_of(session)] == [("refused", calls.NOT_ASKED)] * 2
    assert (await turns_of(session))[-1].text == "Hello."


async def test_results_go_on_once_another_reply_of_the_chat_is_written(say, engine, session, shop, page, htmx):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    (first,) = await turns_of(session)
    other = await Turn.objects.acreate(  # as a comparison with another checkpoint
        session=session, position=1, checkpoint_id=first.checkpoint_id, messages=[user(ASK)], writer=writers.name()
    )
    (call,) = await calls_of(session)
    await page.post(f"/calls/{call.pk}/", {"word": "once"}, headers=htmx)

    async def done() -> bool:
        return await ToolCall.objects.filter(status="done").aexists()

    await until(done, "the call", 60)
    await Turn.objects.filter(pk=other.pk).aupdate(status=Turn.Status.SERVED, finish_reason="stop")
    await all_quiet()
    assert [turn.text for turn in await turns_of(session)] == ["", "", "It costs 4."]


async def test_what_was_called_before_its_person_wrote_on_is_not_run(say, engine, session, shop):
    await let_use(session, shop, "price")
    await mark_safe(shop, "price")
    engine.says("Hm.")
    await say(ASK)
    (turn,) = await turns_of(session)
    called = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "price"}}]}
    await Turn.objects.filter(pk=turn.pk).aupdate(finish_reason="tool_calls", message=called)
    await Turn.objects.acreate(
        session=session, position=1, follows=turn, checkpoint_id=turn.checkpoint_id, messages=[user("Never mind")]
    )
    lease = await sync_to_async(leases.take)(turn)
    assert await sync_to_async(rounds.prepare)(turn, lease) == []
    assert await calls_of(session) == []


async def test_a_server_that_was_removed_before_its_turn_came_is_not_called(engine, session, shop, say):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    await say(ASK)
    (call,) = [one async for one in ToolCall.objects.select_related("server")]
    await shop.adelete()
    assert await rounds.asked_of_server(call) == ("failed", "Error: the tool's server was removed.")
    await sync_to_async(call.server.keep_list)([])  # nor does its list break what is under way


async def test_a_page_reads_of_a_server_its_name_alone(say, engine, session, shop):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    await say(ASK)
    (turn,) = await turns_of(session)
    ((call,),) = (await sync_to_async(calls.of_turns)([turn.pk])).values()
    assert (call.server.name, {"listed", "token"} <= call.server.get_deferred_fields()) == ("shop", True)


async def test_always_ends_where_the_tool_is_ticked_no_more(say, word, engine, session, shop, page):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    await word("always")
    kept = await Session.objects.aget(pk=session.pk)
    assert len(kept.granted) == 1
    await page.post(f"/chats/{session.pk}/settings/", {"tools": kept.tools})
    assert (await Session.objects.aget(pk=session.pk)).granted == kept.granted
    await page.post(f"/chats/{session.pk}/settings/", {})
    assert (await Session.objects.aget(pk=session.pk)).granted == []
