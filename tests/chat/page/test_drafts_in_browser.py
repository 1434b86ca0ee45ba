"""What is being typed on a chat's page, in a real browser: it survives what happens meanwhile."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from accounts.models import Role
from accounts.roles import give
from chat.models import Turn

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Locator, Page, expect

from tests.chat.page.acts import draw_again, say

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


async def rewrite(place: Page | Locator) -> None:
    """Open the box where a reply is written anew."""
    await place.get_by_role("button", name="Teach", exact=True).click()
    await place.get_by_text("It should have said …").click()


async def test_what_is_being_typed_survives_what_happens_meanwhile(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await rewrite(tab)
    await tab.get_by_label("What should it have said?").fill("Half a sent")
    other = await open_tab()
    await other.get_by_role("button", name="Bad reply").click()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.get_by_label("What should it have said?")).to_have_value("Half a sent")


async def test_a_box_that_was_opened_stays_open_and_in_focus_when_its_turn_is_drawn_again(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await rewrite(tab)
    await tab.get_by_label("What should it have said?").focus()
    await tab.evaluate("""() => {
        const again = document.querySelector("article.turn").cloneNode(true);
        again.querySelectorAll(".opened").forEach((opened) => { opened.hidden = true; });
        again.querySelector(".prose").textContent = "Drawn again";
        const pushed = `<div hx-swap-oob="beforeend:#turns">${again.outerHTML}</div>`;
        htmx.swap(document.body, pushed, { swapStyle: "none" });
    }""")
    await expect(tab.locator(".turn .reply > .prose")).to_have_text("Drawn again")
    await expect(tab.get_by_label("What should it have said?")).to_be_visible()
    await expect(tab.get_by_label("What should it have said?")).to_be_focused()
    await expect(tab.get_by_role("button", name="Teach", exact=True)).to_have_attribute("aria-expanded", "true")


CARET = "at => [at.selectionStart, at.selectionEnd]"


@pytest.mark.parametrize("drawn_again", ["pushed", "refreshed"])
async def test_a_person_in_the_plain_words_stays_there_when_the_turn_is_drawn_again(
    open_tab, engine, session, drawn_again
):
    tab = await open_tab("/login/")
    sockets = []
    await tab.route_web_socket("**/ws/chat/**", lambda socket: (sockets.append(socket), socket.connect_to_server()))
    await tab.goto(tab.url.replace("/login/", "/"))
    await say(tab, "Say hello")
    await tab.get_by_title("Mark words").focus()
    await tab.keyboard.press("Enter")
    plain = tab.get_by_label("The reply as plain text")
    await expect(plain).to_be_focused()
    await plain.evaluate("at => at.setSelectionRange(1, 3)")
    if drawn_again == "pushed":
        await draw_again(session)
    else:
        await Turn.objects.filter(session=session).aupdate(finish_reason="length")
        await sockets[-1].close(code=1012)  # as a server says that restarts: the page asks for what it missed
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(plain).to_be_focused()
    assert await plain.evaluate(CARET) == [1, 3]


async def test_a_caret_amid_what_is_typed_stays_there_when_the_turn_is_drawn_again(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_visible()
    await tab.get_by_label("Edit this message").click()
    box = tab.locator(".edit textarea")
    await box.fill("Half a sentence")
    await box.evaluate("at => at.setSelectionRange(4, 4)")
    await draw_again(session)
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(box).to_be_focused()
    await tab.keyboard.type(" of")
    await expect(box).to_have_value("Half of a sentence")


async def test_a_button_without_an_id_keeps_the_focus_when_its_turn_is_drawn_again(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_visible()
    copy = tab.locator("article.turn").get_by_role("button", name="Copy").last
    await copy.focus()
    assert await copy.get_attribute("id") is None
    await draw_again(session)
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(copy).to_be_focused()


async def test_a_person_who_left_a_message_that_they_edit_is_not_brought_back_to_it(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_visible()
    await tab.get_by_label("Edit this message").click()
    await expect(tab.locator(".edit textarea")).to_be_focused()
    await tab.get_by_label("Your message").focus()
    await tab.evaluate("""() => addEventListener("toggle", () => { document.body.dataset.drawn = "open" }, true)""")
    await draw_again(session)
    await expect(tab.locator("body[data-drawn=open]")).to_have_count(1)
    await expect(tab.locator(".edit textarea")).to_be_visible()
    await expect(tab.get_by_label("Your message")).to_be_focused()


async def test_what_is_typed_at_an_earlier_try_stays_with_that_try(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Try again").click()
    await expect(tab.get_by_text("2/2")).to_be_visible()
    await tab.get_by_role("button", name="Try before this").click()
    await expect(tab.get_by_text("1/2")).to_be_visible()
    await rewrite(tab)
    await tab.get_by_label("What should it have said?").fill("Half a sentence.")

    await tab.evaluate("refresh()")

    await expect(tab.get_by_label("What should it have said?")).to_be_visible()
    await expect(tab.get_by_label("What should it have said?")).to_have_value("Half a sentence.")


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [("sessionid", "You are signed out"), ("csrf", "This page is out of date"), ("all", "You are signed out")],
)
async def test_what_was_typed_survives_a_page_that_is_signed_out_or_out_of_date(
    open_tab, engine, session, settings, lost, sentence
):
    tab = await open_tab()
    await say(tab, "Say hello")
    await rewrite(tab)
    await tab.get_by_label("What should it have said?").fill("Half a sentence.")
    names = {"sessionid": settings.SESSION_COOKIE_NAME, "csrf": settings.CSRF_COOKIE_NAME}
    await tab.context.clear_cookies(**({"name": names[lost]} if lost in names else {}))

    await tab.get_by_role("button", name="Teach this").and_(tab.locator(":visible")).click()

    await expect(tab.locator("#complaint")).to_contain_text(sentence)
    await expect(tab.get_by_label("What should it have said?")).to_have_value("Half a sentence.")
    await tab.get_by_label("Your message").fill("And this?")
    await tab.get_by_role("button", name="Send").click()
    await expect(tab.locator("#complaint")).to_contain_text(sentence)
    await expect(tab.get_by_label("Your message")).to_have_value("And this?")


async def test_who_signs_out_in_another_tab_is_told_so_at_once_and_keeps_the_words(open_tab, engine, session):
    one, other = await open_tab(), await open_tab()
    await say(one, "Say hello")
    await expect(one.locator(".turn .chip")).to_have_text("not taught yet")
    await one.get_by_label("Your message").fill("And this?")
    sockets: list[str] = []
    one.on("websocket", lambda socket: sockets.append(socket.url))

    await other.locator(".person > summary").click()
    await other.get_by_role("button", name="Sign out").click()

    await expect(one.locator("#complaint")).to_contain_text("You are signed out. Your words are still here")
    await expect(one.get_by_label("Your message")).to_have_value("And this?")
    await one.wait_for_timeout(2500)  # a page that tries again does so within 1 s, then 2, at most
    assert sockets == []


async def test_a_page_that_comes_back_after_a_sign_out_connects_once_and_says_so(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    sockets: list[str] = []
    tab.on("websocket", lambda socket: sockets.append(socket.url))
    await tab.context.clear_cookies()

    # As when the server was started again: the page connects by itself.
    await tab.evaluate(
        "() => { const main = document.querySelector('main'), copy = main.cloneNode(true);"
        " main.replaceWith(copy); htmx.process(copy); }"
    )

    await expect(tab.locator("#complaint")).to_contain_text("You are signed out.")
    await tab.wait_for_timeout(2500)
    assert len(sockets) == 1


async def test_a_board_of_somebody_who_was_demoted_says_so_and_asks_no_more(open_tab, ana, session):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    board = await open_tab("/connect/")  # which has no socket
    sockets: list[str] = []
    board.on("websocket", lambda socket: sockets.append(socket.url))
    await board.get_by_role("link", name="Console").click()
    await expect(board.locator("#board-headline")).to_be_attached()
    await type(ana).objects.filter(pk=ana.pk).aupdate(is_staff=False)

    await expect(board.get_by_role("alert")).to_contain_text("no longer yours to see")
    await board.wait_for_timeout(2500)
    assert len(sockets) == 1
