"""A page says that its reply waits for an engine that does not answer, and that it goes on."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async

from accounts.models import Role
from accounts.roles import give
from chat.models import Turn
from chat.replying import live_replies, replies
from gpu_workers.errors import NoRoom
from tests import sockets
from tests.chat.conftest import open_turn, until, user

pytestmark = pytest.mark.django_db(transaction=True, serialized_rollback=True)

WAITS = "The reply waits for the engine, and goes on when it answers"
REPLIED = '<div id="announcer" hx-swap-oob="innerHTML">Talkback replied'
"""What only a whole reply is told with; a turn's own heading has the words from its first moment."""


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(replies, "PATIENCE_S", 60.0)


async def told(tab: sockets.Tab, turn: Turn) -> str:
    return await tab.sees(f'<div id="waits-{turn.pk}" hx-swap-oob="innerHTML"><p')


async def test_a_reply_that_waits_for_the_engine_says_so_once_in_each_tab_until_words_come(session, ana, engine):
    engine.says("Hello, captain.")
    engine.says("and so on.")
    engine.hold(after=3)
    await sync_to_async(give)(ana, Role.OPERATOR)
    at = f"/ws/chat/{session.pk}/"
    async with sockets.Tab(at, ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))
        assert await asyncio.to_thread(engine.holding.wait, 10)
        engine.goes_down()
        engine.release()

        fragment = await told(tab, turn)
        assert f'{WAITS}; see <a href="/console/health/">Health</a>.' in fragment
        assert f'<div id="announcer" hx-swap-oob="innerHTML">{WAITS}.</div>' in fragment
        assert await tab.is_silent()  # some beats of 0.05 s later

        async with sockets.Tab(at, ana) as reloaded:
            assert f'<div id="waits-{turn.pk}"></div>' in await reloaded.sees(f'id="turn-{turn.pk}"')
            assert WAITS in await told(reloaded, turn)
            engine.hold(after=3)
            engine.comes_back()
            gone = f'<div id="waits-{turn.pk}" hx-swap-oob="innerHTML"></div>'
            for one in (tab, reloaded):
                assert f'id="said-{turn.pk}"' in await one.sees(gone)
            engine.release()
            for one in (tab, reloaded):
                assert f'id="waits-{turn.pk}"' not in await one.sees("announcer")
        await asyncio.wait_for(speaking, 10)
    assert (await Turn.objects.aget(pk=turn.pk)).text.endswith("and so on.")


async def test_a_reply_whose_engine_says_nothing_for_a_while_says_so_until_words_come(
    session, ana, engine, monkeypatch
):
    monkeypatch.setattr(replies, "SILENT_S", 0.2)
    engine.says("Hello, captain.")
    engine.hold(after=1)
    async with sockets.Tab(f"/ws/chat/{session.pk}/", ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))
        fragment = await told(tab, turn)
        assert fragment.count("The engine has said nothing for a while: it may be busy, or hang.") == 2
        assert WAITS not in fragment
        engine.release()
        assert "The engine has said nothing" not in await tab.sees(REPLIED)
        await asyncio.wait_for(speaking, 10)


async def test_a_silent_engine_that_turns_out_to_be_away_is_said_to_be_away(session, ana, engine, monkeypatch):
    monkeypatch.setattr(replies, "SILENT_S", 0.2)
    engine.says("Hello, captain.")
    engine.says("and so on.")
    engine.hold(after=3)
    async with sockets.Tab(f"/ws/chat/{session.pk}/", ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))
        assert "The engine has said nothing for a while" in await told(tab, turn)
        engine.goes_down()
        engine.release()
        assert f'<div id="announcer" hx-swap-oob="innerHTML">{WAITS}.</div>' in await told(tab, turn)
        assert await tab.is_silent()  # once, and not at each beat
        engine.comes_back()
        assert "The engine has said nothing" not in await tab.sees(REPLIED)
        await asyncio.wait_for(speaking, 10)


async def test_without_a_right_to_see_health_there_is_no_link(session, ana, engine):
    engine.goes_down()
    async with sockets.Tab(f"/ws/chat/{session.pk}/", ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))
        fragment = await told(tab, turn)
        assert f"{WAITS}.</p>" in fragment
        assert "<a " not in fragment
        engine.comes_back()
        await asyncio.wait_for(speaking, 10)


async def test_an_engine_that_answers_that_it_is_full_is_not_said_to_be_away(session, ana, engine):
    engine.goes_down(NoRoom("All adapters are loaded."))
    async with sockets.Tab(f"/ws/chat/{session.pk}/", ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))

        async def tried_twice() -> bool:
            return len(engine.asked("stream")) >= 2  # 0.25 s apart: some beats of 0.05 s

        await until(tried_twice, "a second try")
        engine.comes_back()
        while REPLIED not in (fragment := await tab.hears()):
            assert WAITS not in fragment
        await asyncio.wait_for(speaking, 10)


async def test_an_engine_that_answers_each_try_that_it_is_full_is_not_said_to_be_silent(
    session, ana, engine, monkeypatch
):
    ahead_s, real = [0.0], replies.monotonic
    monkeypatch.setattr(replies, "monotonic", lambda: real() + ahead_s[0])
    monkeypatch.setattr(replies, "FIRST_PAUSE_S", 0.1)
    engine.goes_down(NoRoom("All adapters are loaded."))
    async with sockets.Tab(f"/ws/chat/{session.pk}/", ana) as tab:
        turn = await open_turn(session, [user("Say hello")])
        speaking = live_replies.begin(live_replies.speak(turn, engine))

        async def is_tried_twice_more() -> None:
            count = len(engine.asked("stream")) + 2

            async def tried() -> bool:
                return len(engine.asked("stream")) >= count

            await until(tried, "two more tries")

        await is_tried_twice_more()
        for _ in range(2):  # each less than SILENT_S, both together more
            ahead_s[0] += 10.0
            await is_tried_twice_more()
        engine.comes_back()
        while REPLIED not in (fragment := await tab.hears()):
            assert "The engine has said nothing" not in fragment
        await asyncio.wait_for(speaking, 10)


@pytest.mark.browser
async def test_a_page_says_that_its_reply_waits_for_the_engine_also_after_a_reload(open_tab, engine):
    expect = pytest.importorskip("playwright.async_api", reason="pip install -e '.[browser]'").expect
    engine.says("Hello, captain.")
    engine.says("and so on.")
    engine.hold(after=3)
    tab = await open_tab()
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.keyboard.press("Enter")
    assert await asyncio.to_thread(engine.holding.wait, 30)
    engine.goes_down()
    engine.release()

    waits, most = tab.locator(".turn.answering .reply").get_by_text(WAITS), {"timeout": 30_000}
    await expect(waits).to_be_visible(**most)
    await expect(tab.locator("#announcer")).to_contain_text(WAITS, **most)
    await tab.evaluate("refresh()")  # as a page does by itself where a reply has not grown for a while
    await expect(waits).to_be_visible(**most)
    await tab.reload()
    await expect(waits).to_be_visible(**most)
    engine.comes_back()
    await expect(tab.locator(".turn.served .prose")).to_contain_text("and so on.", **most)
    await expect(tab.get_by_text(WAITS)).to_have_count(0, **most)
