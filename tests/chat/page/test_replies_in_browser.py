"""A chat as a person uses it, in a real browser: replies grow, stop, and outlive their tab and their line."""

from __future__ import annotations

import asyncio

import pytest

from chat.models import Session, Turn

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import WebSocketRoute, expect

from tests.browser.fitting import fits
from tests.chat.page.acts import SOCKET, say

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


async def test_a_reply_grows_word_by_word_and_ends_with_what_can_be_said_of_it(open_tab, engine):
    engine.says("Hello, **captain**, and welcome.")
    engine.hold(after=6)
    tab = await open_tab()

    await say(tab, "Say hello")

    await expect(tab.locator(".turn .prose")).to_contain_text("Hello")
    await expect(tab.get_by_role("button", name="Stop")).to_be_visible()
    await expect(tab.get_by_role("button", name="Send")).to_be_hidden()
    await expect(tab.get_by_role("button", name="Good reply")).to_have_count(0)
    engine.release()
    await expect(tab.locator(".turn .prose strong")).to_have_text("captain")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await expect(tab.locator(".turn .badge")).to_have_text("talkback@0")
    await expect(tab.get_by_role("button", name="Good reply")).to_be_visible()
    await expect(tab.get_by_role("button", name="Send")).to_be_visible()
    await expect(tab.locator("#announcer")).to_contain_text("Talkback replied: Hello")


async def test_a_starter_starts(open_tab, engine):
    tab = await open_tab()
    await tab.get_by_role("button", name="What is a rainbow?").click()
    await expect(tab.locator(".said .words")).to_have_text("What is a rainbow?")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")


async def test_the_keyboard_is_enough(open_tab, engine, session):
    tab = await open_tab()
    await tab.locator("h1").first.click()  # anywhere else
    await tab.keyboard.press("/")
    await tab.keyboard.type("one")
    await tab.keyboard.press("Shift+Enter")
    await tab.keyboard.type("two")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".said .words")).to_have_text("one\ntwo")
    await expect(tab.get_by_label("Your message")).to_have_value("")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await tab.keyboard.press("ArrowUp")
    await expect(tab.get_by_label("Your message")).to_have_value("one\ntwo")


async def test_escape_stops_and_another_try_takes_its_place(open_tab, engine, session):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=4)
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .prose")).to_contain_text("Hel")
    await tab.keyboard.press("Escape")
    await expect(tab.locator(".turn .chip")).to_have_text("stopped")
    engine.release()

    engine.says("Ahoy.")
    await tab.get_by_role("button", name="Try again").click()

    await expect(tab.locator(".turn > .reply > .prose")).to_have_text("Ahoy.")
    await expect(tab.locator(".turn")).to_have_count(1)
    await expect(tab.get_by_text("2/2")).to_be_visible()


async def test_of_what_is_pushed_only_what_has_a_place_on_the_page_is_shown(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await tab.add_init_script(SOCKET)
    await tab.reload()
    await expect(tab.locator("body[data-caught-up]")).to_have_count(1)
    said = await tab.locator(".turn .prose").get_attribute("id")

    for pushed in (
        '<div id="said-of-another" hx-swap-oob="innerHTML">Hello</div>',
        '<i id="gone" hx-swap-oob="delete"></i>',
        f'<div id="{said}" hx-swap-oob="innerHTML">Hello, <b>captain</b>.</div>'
        '<span id="thumbs-of-another" hx-swap-oob="true">Two thumbs</span>',
    ):
        await tab.evaluate("data => window.socket.dispatchEvent(new MessageEvent('message', { data }))", pushed)

    await expect(tab.locator(".turn .prose")).to_have_text("Hello, captain.")
    await expect(tab.get_by_text("Two thumbs")).to_have_count(0)


async def test_two_tabs_see_the_same_and_do_not_talk_over_each_other(open_tab, engine, session):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=4)
    one, other = await open_tab(), await open_tab()
    await say(one, "Say hello")
    await expect(other.locator(".turn .prose")).to_contain_text("Hel")

    await other.evaluate("document.querySelector('.turn').classList.remove('answering')")  # as if it had not heard yet
    await say(other, "Me too")

    await expect(other.get_by_role("alert")).to_contain_text("still being written")
    await expect(other.get_by_label("Your message")).to_have_value("Me too")
    engine.release()
    for tab in (one, other):
        await expect(tab.locator(".turn .prose")).to_have_text("Hello, captain, and welcome.")
        await expect(tab.locator(".turn")).to_have_count(1)


async def test_a_double_click_sends_once(open_tab, engine, session):
    tab = await open_tab()
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.get_by_role("button", name="Send").dblclick()
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    assert await Turn.objects.acount() == 1


async def test_a_reply_outlives_the_tab_that_asked_for_it(open_tab, engine, session):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=4)
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .prose")).to_contain_text("Hel")
    await tab.close()
    engine.release()
    await expect((await open_tab()).locator(".turn .prose")).to_have_text("Hello, captain, and welcome.")


async def test_a_line_that_broke_shows_what_was_missed(open_tab, engine, session):
    watching = await open_tab("/login/")
    sockets: asyncio.Queue[WebSocketRoute] = asyncio.Queue()
    is_up = asyncio.Event()
    is_up.set()

    async def connect(socket: WebSocketRoute) -> None:
        await is_up.wait()
        socket.connect_to_server()
        sockets.put_nowait(socket)

    await watching.route_web_socket("**/ws/chat/**", connect)
    await watching.goto(watching.url.replace("/login/", "/"))
    first = await asyncio.wait_for(sockets.get(), 30)
    is_up.clear()
    await first.close(code=1012)  # as a server says that restarts
    await expect(watching.locator("body.offline")).to_be_attached()
    written = await watching.locator("#keys").evaluate("one => getComputedStyle(one, '::before').content")
    assert written == '"Not connected: trying again …"'

    await say(await open_tab(), "Say hello")
    is_up.set()

    await expect(watching.locator(".turn .chip")).to_have_text("not taught yet")
    await expect(watching.locator("body.offline")).to_have_count(0)
    assert not sockets.empty()


async def test_nothing_that_is_written_runs(open_tab, engine, session):
    engine.says("<img src=x onerror=alert(1)> <script>alert(2)</script>")
    tab = await open_tab()
    forged = "<img src=x onerror=alert(3)></div><script>alert(4)</script>"
    await say(tab, forged)
    await expect(tab.locator(".turn .prose")).to_contain_text("<script>alert(2)</script>")
    await expect(tab.locator(".said .words")).to_have_text(
        "<img src=x onerror=alert(3)></div><script>alert(4)</script>"
    )


async def test_a_long_message_says_what_to_do_and_stays(open_tab, engine, session):
    tab = await open_tab()
    await tab.get_by_label("Your message").fill("word " * 3000)
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("alert")).to_contain_text("start a new conversation")
    await expect(tab.get_by_label("Your message")).not_to_have_value("")


async def test_a_chat_is_renamed_and_deleted_and_taken_back(open_tab, engine, session):
    tab = await open_tab()
    await tab.get_by_title("This chat").click()
    await tab.get_by_label("Name").fill("Greetings")
    await tab.get_by_role("button", name="Rename").click()
    await expect(tab.locator("h1")).to_have_text("Greetings")
    await tab.get_by_title("This chat").click()
    await tab.get_by_role("button", name="Delete this chat").click()
    await expect(tab.get_by_text("What shall we talk about?")).to_be_visible()
    assert await Session.objects.filter(deleted_at=None).acount() == 0
    await tab.get_by_role("button", name="Undo").click()
    await expect(tab.locator(".chats .name")).to_have_text(["Greetings"])
    assert await Session.objects.filter(deleted_at=None).acount() == 1


async def test_it_fits_a_phone(open_tab, engine, session):
    tab = await open_tab()
    await tab.set_viewport_size({"width": 360, "height": 700})
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await fits(tab)
    await expect(tab.locator("#chats")).to_be_hidden()
    await tab.get_by_role("button", name="Chats").click()
    await expect(tab.locator("#chats")).to_be_visible()
