"""A chat's model calls tools of a real server: its person is asked, the results go back to it, and it answers."""

from __future__ import annotations

import pytest
from django.test import AsyncClient

from chat.models import Session, Turn
from chat.tools import rounds
from chat.tools.offering import ABOUT
from chat.tools.servers import ToolServer
from tests.chat.conftest import user
from tests.chat.tools.conftest import all_quiet, calling, calls_of, let_use, mark_safe, shown, turns_of

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

ASK = "What does bread cost?"
PRICE = calling(("price", {"item": "bread"}))
"""The shop's bread costs 4."""


async def test_a_chat_is_given_no_tools_unless_its_person_chose_some(say, engine, session, shop):
    await say(ASK)
    (turn,) = await turns_of(session)
    assert (turn.tools, turn.messages) == ([], [user(ASK)])


async def test_a_call_waits_for_its_person_and_what_it_says_is_the_next_state(say, word, engine, session, shop, page):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.", to="<tool_response>|4")

    await say(ASK)
    (first,) = await turns_of(session)
    (call,) = await calls_of(session)
    assert (first.finish_reason, call.status, call.name, call.result) == ("tool_calls", "waiting", "price", "")
    assert [tool["function"]["name"] for tool in first.tools] == ["price"]
    assert first.messages == [{"role": "system", "content": ABOUT}, user(ASK)]
    drawn = await shown(page, session)
    assert all(
        said in drawn for said in ("Allow once", "Always in this chat", "Refuse", "&quot;item&quot;: &quot;bread&quot;")
    )

    await word("once")
    first, second = await turns_of(session)
    (call,) = await calls_of(session)
    assert (call.status, call.result, call.seconds is not None) == ("done", "4", True)
    # As a client of /v1 sends it: the reply with its call, then what the tool said.
    result = {"role": "tool", "tool_call_id": first.message["tool_calls"][0]["id"], "content": "4"}
    assert second.messages == [
        *first.messages,
        {"role": "assistant", "content": "", "tool_calls": first.message["tool_calls"]},
        result,
    ]
    assert (first.status, first.next_state) == (Turn.Status.OBSERVED, [result])
    assert (second.follows_id, second.text, second.status) == (first.pk, "It costs 4.", Turn.Status.SERVED)
    drawn = await shown(page, session)
    assert "It costs 4." in drawn
    assert "Allow once" not in drawn
    # One reply of the two has words: it alone has thumbs, and what a tool said has no pen.
    assert drawn.count("/thumbs/") == drawn.count(f"{second.pk}/thumbs/")
    assert f"/turns/{second.pk}/edit/" not in drawn


async def test_what_is_allowed_once_is_asked_again_and_what_is_always_allowed_is_not(say, word, engine, session, shop):
    await let_use(session, shop, "price")
    for said in ("once", "always", None):
        engine.says(PRICE, to="bread")
        engine.says("It costs 4.")
        await say(ASK)
        if said:
            await word(said)
    assert [call.status for call in await calls_of(session)] == ["done", "done", "done"]
    session = await Session.objects.aget(pk=session.pk)
    assert len(session.granted) == 1


async def test_a_tool_that_an_operator_marked_as_safe_is_called_at_once(say, engine, session, shop):
    await let_use(session, shop, "price")
    await mark_safe(shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    assert [turn.text for turn in await turns_of(session)] == ["", "It costs 4."]


async def test_a_refused_call_is_not_made_and_the_model_hears_of_it(say, word, engine, session, shop):
    await let_use(session, shop, "put in")
    engine.says(calling(("put_in", {"item": "bread"})))
    engine.says("Then I will not.")
    await say("Buy bread")
    await word("refuse")
    (call,) = await calls_of(session)
    assert (call.status, call.result) == ("refused", "Error: the person refused this call.")
    assert [turn.text for turn in await turns_of(session)] == ["", "Then I will not."]


async def test_two_calls_of_one_reply_go_back_together_once_both_are_decided(say, word, engine, session, shop):
    await let_use(session, shop, "price")
    engine.says(calling(("price", {"item": "bread"}), ("price", {"item": "milk"})))
    engine.says("6 together.")
    await say("Bread and milk?")
    await word("once")
    assert len(await turns_of(session)) == 1
    await word("once")
    _, second = await turns_of(session)
    assert [message["content"] for message in second.messages if message["role"] == "tool"] == ["4", "2"]


async def test_after_so_many_rounds_the_model_must_answer(say, engine, session, shop, monkeypatch):
    monkeypatch.setattr(rounds, "MOST_ROUNDS", 3)
    await let_use(session, shop, "price")
    await mark_safe(shop, "price")
    engine.says(PRICE, times=None)
    await say(ASK)
    made = await turns_of(session)
    # Three replies that call, and one that is shown no tools: what looks like a call there is text.
    assert [turn.finish_reason for turn in made] == ["tool_calls"] * 3 + ["stop"]
    assert made[-1].asked["tool_choice"] == "none"
    assert len(await calls_of(session)) == 3


async def test_a_message_in_place_of_a_word_goes_on_without_the_call(say, engine, session, shop):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    await say(ASK)
    engine.says("Hello.")
    await say("Never mind")
    (call,) = await calls_of(session)
    _, second = await turns_of(session)
    assert call.status == "refused"
    assert [message["role"] for message in second.messages][-3:] == ["assistant", "tool", "user"]
    assert second.messages[-2]["content"] == "This call was not run: the conversation went on without it."


async def test_a_second_word_on_a_call_changes_nothing(say, word, engine, session, shop, page, htmx):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    await word("once")
    (call,) = await calls_of(session)
    await page.post(f"/calls/{call.pk}/", {"word": "refuse"}, headers=htmx)
    (again,) = await calls_of(session)
    assert (again.status, len(await turns_of(session))) == ("done", 2)


async def test_no_one_decides_on_anothers_call(say, engine, session, shop, ben, htmx):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    await say(ASK)
    (call,) = await calls_of(session)
    other = AsyncClient()
    await other.aforce_login(ben)
    answer = await other.post(f"/calls/{call.pk}/", {"word": "once"}, headers=htmx)
    assert answer.status_code == 404
    assert [one.status for one in await calls_of(session)] == ["waiting"]


async def test_a_file_of_the_chat_tells_its_calls(say, word, engine, session, shop, page):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    await word("once")
    told = (await page.get(f"/chats/{session.pk}/export.md")).content.decode()
    (tail,) = told.split("## You")[1:]
    assert [line for line in tail.splitlines() if line] == [
        ASK,
        "## talkback@0",
        '> Tool price({"item": "bread"}): 4',
        "## talkback@0",
        "It costs 4.",
    ]
    first, second = (await page.get(f"/chats/{session.pk}/export.json")).json()["chats"][0]["turns"]
    assert first["calls"] == [{"name": "price", "arguments": '{"item": "bread"}', "result": "4"}]
    assert "calls" not in second


async def test_another_try_at_the_answer_keeps_what_the_tool_said(say, word, engine, session, shop, page, htmx):
    await let_use(session, shop, "price")
    engine.says(PRICE, to="bread")
    engine.says("It costs 4.")
    await say(ASK)
    await word("once")
    _, answer = await turns_of(session)
    engine.says("Four.")
    await page.post(f"/turns/{answer.pk}/again/", headers=htmx)
    await all_quiet()
    first, _, again = await turns_of(session)
    assert (again.text, again.follows_id, again.messages) == ("Four.", first.pk, answer.messages)
    assert len(await calls_of(session)) == 1
    # What a tool said is no message of a person's, and is not worded anew.
    refused = await page.post(f"/turns/{again.pk}/edit/", {"text": "It said 5."}, headers=htmx)
    assert refused.status_code == 409
    assert "which no person wrote" in refused.content.decode()


async def test_tools_that_do_not_fit_the_window_are_named_as_the_cause(say, engine, session, shop):
    tool = {"name": "long", "description": "word " * 1500, "schema": {"type": "object", "title": "word " * 6000}}
    wide = await ToolServer.objects.acreate(name="wide", url="http://example.org", listed=[tool])
    await let_use(session, wide, "long")
    answer = await say("Hello", status=422)
    assert "Choose fewer tools in this chat&#x27;s settings" in answer
    assert await turns_of(session) == []
