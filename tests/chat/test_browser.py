"""The chat as a person uses it, in a real browser: by mouse, by keyboard, in two tabs, through a broken line."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from accounts.models import Role
from accounts.roles import give
from chat.models import Session, Turn, group_of
from feedback.models import Feedback

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Locator, Page, WebSocketRoute, expect

from tests.browser.fitting import fits, hold

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


async def say(tab: Page, words: str) -> None:
    await tab.get_by_label("Your message").fill(words)
    await tab.keyboard.press("Enter")


async def rewrite(place: Page | Locator) -> None:
    """Open the box where a reply is written anew."""
    await place.get_by_role("button", name="Teach", exact=True).click()
    await place.get_by_text("It should have said …").click()


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


SOCKET = """(() => {
    const Real = WebSocket;
    window.WebSocket = class extends Real {
        constructor(...about) {
            super(...about);
            window.socket = this;
            this.addEventListener("message", ({ data }) => {
                if (!data.includes("beforeend:")) document.body.dataset.caughtUp = "";
            });
        }
    };
})()"""
"""The page's socket, to be had by a test. A page that connects is shown the newest turn, then the chips, and no
more."""


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


async def test_thumb_and_corrections(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.locator(".turn .chip")).to_have_text("being judged")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")

    await expect(tab.locator(".correction")).to_be_hidden()
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await expect(tab.get_by_label("What should it do next time?")).to_be_focused()
    await tab.get_by_text("It should have said …").click()
    await expect(tab.get_by_label("What should it have said?")).to_have_value("I see.")
    await expect(tab.get_by_label("What should it do next time?")).to_be_hidden()
    await tab.get_by_text("Next time, do …").click()
    await tab.get_by_label("What should it do next time?").fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".opener.teach")).to_have_attribute("data-given", "")
    said = await Feedback.objects.standing().aget()
    assert (said.kind, said.text) == ("guidance", "Be brief.")


async def stands(kind: str) -> list[Feedback]:
    return [said async for said in Feedback.objects.standing().filter(kind=kind)]


async def test_a_bad_reply_has_reasons_by_mouse_and_by_keyboard(open_tab, engine, session):
    other, tab = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".reasons label")).to_have_count(0)
    await tab.get_by_role("button", name="Bad reply").focus()
    await tab.keyboard.press("Space")
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await expect(tab.get_by_label("What should it do next time?")).to_be_focused()

    # What it opened, then the reasons: each is reached with Tab and chosen with Space.
    first = tab.get_by_role("checkbox", name="wrong")
    for _ in range(4):
        await tab.keyboard.press("Tab")
        if await first.evaluate("chip => chip === document.activeElement"):
            break
    await expect(first).to_be_focused()
    await tab.keyboard.press("Space")
    await expect(other.get_by_role("checkbox", name="wrong")).to_be_checked()
    await expect(first).to_be_focused()
    await tab.keyboard.press("Tab")
    await tab.keyboard.press("Space")
    await expect(other.get_by_role("checkbox", name="too long")).to_be_checked()
    assert [said.tags for said in await stands("thumb")] == [["wrong", "too long"]]

    await other.locator(".reasons label").get_by_text("wrong").click()
    await expect(other.get_by_role("checkbox", name="wrong")).not_to_be_checked()
    await other.get_by_role("button", name="Undo").click()
    await expect(other.locator(".reasons label")).to_have_count(0)
    await expect(other.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")
    await expect(tab.locator(".reasons label")).to_have_count(0)
    assert await stands("thumb") == []


async def test_the_answer_to_a_message_takes_no_focus_from_what_its_person_is_at(open_tab, engine, session):
    tab = await open_tab(f"/chats/{session.pk}/")
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch()
        await arrives.wait()
        await route.fulfill(response=answer)

    await hold(tab, "**/say/", late, first=1)
    async with tab.expect_event("requestfinished", lambda request: request.url.endswith("/say/")):
        await say(tab, "Say hello")
        await tab.get_by_role("button", name="Bad reply").focus()
        arrives.set()
    await expect(tab.get_by_label("Your message")).to_have_value("")  # it was heard
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_focused()


async def test_a_reason_that_is_being_pressed_when_news_of_it_arrives_is_chosen(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(other.locator(".reasons label")).to_have_count(7)
    await other.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        const { target, fragment } = event.detail;
        const isNews = target.matches(".reasons") && fragment.querySelector(":checked");
        if (isNews) setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await other.locator(".reasons label").get_by_text("wrong").hover()
    await other.mouse.down()
    await tab.locator(".reasons label").get_by_text("too long").click()
    await expect(other.locator("body[data-news]")).to_have_count(1)
    await other.mouse.up()
    await expect(other.get_by_role("checkbox", name="wrong")).to_be_checked()
    await expect(tab.get_by_role("checkbox", name="too long")).to_be_checked()


async def test_a_thumb_that_is_being_pressed_when_news_of_it_arrives_is_given(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await other.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        const { target, fragment } = event.detail;
        const isNews = target.matches(".thumbs") && fragment.querySelector("[aria-pressed=true]");
        if (isNews) setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await other.get_by_role("button", name="Bad reply").focus()
    await other.keyboard.down("Space")
    await tab.get_by_role("button", name="Good reply").click()
    await expect(other.locator("body[data-news]")).to_have_count(1)
    await other.keyboard.up("Space")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(other.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    assert [said.value for said in await stands("thumb")] == [-1]


async def draw_again(session) -> None:
    """Push the newest turn whole to all tabs, as when a socket opens late; it is a little different by now."""
    turn = await Turn.objects.filter(session=session).order_by("-position").afirst()
    await Turn.objects.filter(pk=turn.pk).aupdate(finish_reason="length")
    event = {"type": "turn.changed", "turn": str(turn.pk), "status": turn.status}
    await get_channel_layer().group_send(group_of(session.pk), event)


async def test_a_thumb_that_is_being_pressed_while_its_turn_is_drawn_again_is_given(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_visible()
    await tab.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        if (event.detail.target.id === "turns") setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await tab.get_by_role("button", name="Bad reply").focus()
    await tab.keyboard.down("Space")
    await draw_again(session)
    await expect(tab.locator("body[data-news]")).to_have_count(1)
    await expect(tab.get_by_text("Cut off at its length limit.")).to_have_count(0)  # not under the press
    await tab.keyboard.up("Space")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    assert [said.value for said in await stands("thumb")] == [-1]


async def test_that_a_lesson_was_saved_is_still_said_when_its_turn_is_drawn_again(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await tab.get_by_label("What should it do next time?").fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".saved")).to_have_text("Saved")
    await draw_again(session)
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(tab.locator(".saved")).to_have_text("Saved")


async def test_reasons_chosen_quickly_are_all_kept(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await tab.evaluate("document.querySelectorAll('.reasons label').forEach((label) => label.click())")
    await expect(other.locator(".reasons input:checked")).to_have_count(7)
    await expect(tab.locator(".reasons input:checked")).to_have_count(7)
    assert [len(said.tags) for said in await stands("thumb")] == [7]
    await tab.get_by_role("button", name="Good reply").click()
    await expect(tab.locator(".reasons legend")).to_have_text("What was good?")
    await expect(tab.locator(".reasons input:checked")).to_have_count(0)
    assert [(said.value, said.tags) for said in await stands("thumb")] == [(1, [])]


async def test_a_reason_that_was_not_taken_does_not_look_as_if_it_were(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await Turn.objects.aupdate(status=Turn.Status.ANSWERING)  # tried again elsewhere: nothing can be said of it now
    await tab.locator(".reasons label").get_by_text("wrong").click()
    await expect(tab.locator(".reasons input:checked")).to_have_count(0)
    assert [said.tags for said in await stands("thumb")] == [[]]


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


async def test_a_double_click_on_a_thumb_leaves_it_pressed(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").dblclick()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.locator(".turn .chip")).to_have_text("being judged")
    assert (await Feedback.objects.standing().aget()).value == -1


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
