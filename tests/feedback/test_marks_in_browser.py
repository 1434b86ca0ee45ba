"""Words marked in a real browser: with the mouse in rendered Markdown, by keyboard, by touch; drawn and taken off."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import pytest_asyncio
import uvicorn
from asgiref.sync import sync_to_async

from chat.models import Turn
from feedback.models import Feedback

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import becomes, hold
from tests.chat.page.acts import SOCKET
from tests.chromium import be_patient, new_tab

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

REPLY = """A rainbow is **very, very** pretty 🌈, and `bent` light makes it.

1. Sun & rain meet.
2. Light is *bent* twice.

It never *never* lies."""


@pytest.fixture
def site(transactional_db) -> Iterator[str]:
    """The application behind a real socket."""
    from webapp.asgi import application
    from webapp.serving.web_server import Connection, Server

    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(application, http=Connection, log_level="warning", lifespan="off"))
    ready = threading.Event()
    startup = server.startup

    async def started(*args, **kwargs):
        await startup(*args, **kwargs)
        ready.set()

    server.startup = started  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    assert ready.wait(120)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(120)


@pytest.fixture
async def told(turn) -> Turn:
    await Turn.objects.filter(pk=turn.pk).aupdate(text=REPLY, message={"role": "assistant", "content": REPLY})
    return await Turn.objects.select_related("session").aget(pk=turn.pk)


@pytest_asyncio.fixture(loop_scope="session")
async def open_tab(site, ana, client, told, chromium, playwright):
    """A signed-in tab on the chat with the reply. Whatever a page complains of fails the test."""
    await sync_to_async(client.force_login)(ana)
    cookies = [{"name": name, "value": cookie.value, "url": site} for name, cookie in client.cookies.items()]
    complaints: list[str] = []

    def complain(said) -> None:
        refused = "Failed to load resource" in said.text or "Response Status" in said.text
        if said.type == "error" and not refused:
            complaints.append(said.text)

    browser = await playwright.chromium.connect(chromium.address)

    async def open_tab(*, hears: bool = True, **options) -> Page:
        """`hears`: whether what happens to its turns is pushed to it, as it is once its socket has caught up."""
        context = await browser.new_context(**{"viewport": {"width": 1200, "height": 800}} | options)
        await context.add_cookies(cookies)
        await be_patient(context)
        tab = await new_tab(context)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", complain)
        if hears:
            await tab.add_init_script(SOCKET)
        else:
            await tab.route_web_socket("**/ws/**", lambda socket: None)
        await tab.goto(f"{site}/chats/{told.session_id}/")
        await expect(tab.locator(".prose[data-turn]")).to_be_visible()
        if hears:  # else what it is shown when it connects may move the words that are being selected
            await expect(tab.locator("body[data-caught-up]")).to_have_count(1)
        return tab

    yield open_tab
    await browser.close()
    assert complaints == []


BOX = """([words, occurrence]) => {
    const walker = document.createTreeWalker(document.querySelector(".prose[data-turn]"), NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
        for (let at = node.data.indexOf(words); at >= 0; at = node.data.indexOf(words, at + 1)) {
            if (--occurrence) continue;
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + words.length);
            const { left, right, top, bottom } = range.getBoundingClientRect();
            return { left, right, middle: (top + bottom) / 2 };
        }
    }
}"""


async def select(tab: Page, first: str, last: str | None = None, *, occurrence: int = 1) -> None:
    """Draw the mouse from the beginning of `first` to the end of `last`, as a hand does."""
    start = await tab.evaluate(BOX, [first, occurrence])
    end = await tab.evaluate(BOX, [last or first, occurrence])
    await tab.mouse.move(start["left"] + 0.5, start["middle"])
    await tab.mouse.down()
    await tab.mouse.move((start["left"] + end["right"]) / 2, (start["middle"] + end["middle"]) / 2, steps=4)
    await tab.mouse.move(end["right"] - 0.5, end["middle"], steps=4)
    await tab.mouse.up()


BAD = "() => [...document.querySelectorAll('mark.bad')].map((one) => one.textContent)"


async def spans() -> list[list[int]]:
    row = await Feedback.objects.standing().filter(kind="marks").afirst()
    return row.spans if row else []


async def words() -> list[tuple[str, int]]:
    return [(REPLY[start:end], sign) for start, end, sign in await spans()]


async def test_words_chosen_with_the_mouse_are_marked_kept_and_taken_off(open_tab):
    tab = await open_tab()
    await select(tab, "ry, very", "pret")
    await expect(tab.get_by_role("toolbar", name="Mark the selected words")).to_be_visible()
    await tab.get_by_role("button", name="Bad", exact=True).click()

    await expect(tab.locator("mark.bad").first).to_be_visible()
    # From within a word to within another: the whole words, and the stars that stand between them.
    assert await words() == [("very, very** pretty", -1)]
    await becomes(tab, BAD, ["very, very", " pretty"])
    await expect(tab.get_by_role("toolbar", name="Mark the selected words")).to_be_hidden()

    await tab.reload()
    await becomes(tab, BAD, ["very, very", " pretty"])
    await tab.get_by_title("Mark words").click()
    await expect(tab.locator(".marks q")).to_have_text("very, very** pretty")
    await tab.get_by_role("button", name="Take the mark off").click()

    await expect(tab.locator("mark")).to_have_count(0)
    assert await words() == []
    await expect(tab.locator(".marking")).to_be_visible()


async def test_an_answer_that_comes_after_its_form_was_drawn_anew_is_still_heard(open_tab):
    """What is pushed to all tabs may be quicker than the answer to the one that asked, and takes the form's place."""
    tab = await open_tab()
    await select(tab, "A rainbow")
    await tab.keyboard.press("b")
    await expect(tab.locator("mark.bad")).to_have_text("A rainbow")
    await tab.get_by_title("Mark words").click()
    shown = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch()
        await shown.wait()
        await route.fulfill(response=answer)

    await hold(tab, "**/marks/", late)
    await tab.get_by_role("button", name="Take the mark off").click()
    await expect(tab.locator("mark")).to_have_count(0)  # pushed
    await expect(tab.get_by_role("button", name="Take the mark off")).to_have_count(0)
    shown.set()

    await expect(tab.locator("#announcer")).to_have_text("The mark is off.")


@pytest.mark.parametrize(
    ("first", "last", "occurrence", "marked"),
    [
        ("A rainbow", None, 1, "A rainbow"),
        ("pretty 🌈", ", and", 1, "pretty 🌈, and"),
        ("bent", None, 1, "bent"),
        ("bent", None, 2, "bent"),
        ("never", None, 2, "never"),
        ("Sun & rain", None, 1, "Sun & rain"),
        ("rain meet", "Light", 1, "rain meet.\n2. Light"),
        ("twice", "It", 1, "twice.\n\nIt"),
    ],
)
async def test_a_mark_is_on_the_very_characters_that_were_chosen(open_tab, first, last, occurrence, marked):
    tab = await open_tab()
    await select(tab, first, last, occurrence=occurrence)
    await expect(tab.locator("#marker")).to_be_visible()
    await tab.keyboard.press("g")
    await expect(tab.locator("mark.good").first).to_be_visible()

    assert await words() == [(marked, 1)]
    if occurrence == 2:  # the second of two that look the same
        ((start, _, _),) = await spans()
        assert start == REPLY.rindex(first)


async def test_the_newest_mark_wins_and_other_tabs_see_it(open_tab):
    tab, other = await open_tab(), await open_tab()
    await select(tab, "A rainbow", "very, very")
    await tab.keyboard.press("+")
    await expect(tab.locator("mark.good").first).to_be_visible()
    await select(tab, "rainbow is")
    await tab.keyboard.press("-")
    await expect(tab.locator("mark.bad")).to_have_text("rainbow is")
    assert await words() == [("A ", 1), ("rainbow is", -1), (" **very, very", 1)]

    await expect(other.locator("mark.bad")).to_have_text("rainbow is")
    await expect(other.get_by_title("Mark words")).to_have_text("3 marks")

    await select(tab, "rainbow")
    await tab.keyboard.press("0")
    await expect(tab.locator("mark.bad")).to_have_text(" is")
    assert await words() == [("A ", 1), (" is", -1), (" **very, very", 1)]


async def test_without_a_mouse_words_are_chosen_in_the_plain_text(open_tab):
    tab = await open_tab()
    await tab.get_by_title("Mark words").focus()
    await tab.keyboard.press("Enter")
    plain = tab.get_by_label("The reply as plain text")
    await expect(plain).to_be_focused()
    for _ in range(2):
        await tab.keyboard.press("ArrowRight")
    for _ in range(7):
        await tab.keyboard.press("Shift+ArrowRight")
    await tab.keyboard.press("b")

    await expect(tab.locator("mark.bad")).to_have_text("rainbow")
    assert await words() == [("rainbow", -1)]
    await tab.keyboard.press("Tab")
    await expect(tab.get_by_role("button", name="Good words")).to_be_focused()
    await tab.keyboard.press("Enter")  # the selection is where it was left
    await expect(tab.locator("mark.good")).to_have_text("rainbow")
    assert await words() == [("rainbow", 1)]
    await expect(tab.locator("#announcer")).to_have_text("Marked as good.")


async def test_nothing_selected_says_what_to_do(open_tab):
    tab = await open_tab()
    await tab.get_by_title("Mark words").click()
    await tab.get_by_role("button", name="Bad words").click()
    await expect(tab.get_by_role("alert")).to_contain_text("Select some words first")
    await tab.locator("h1").click()
    await tab.keyboard.press("b")
    assert await words() == []


async def test_a_finger_marks_too(open_tab):
    tab = await open_tab(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    # What a long press does: a browser without a hand has no other way to choose a word by touch.
    await tab.evaluate("""() => {
        const bold = document.querySelector(".prose strong").firstChild.firstChild;
        document.getSelection().setBaseAndExtent(bold, 0, bold, 4);
    }""")
    await tab.get_by_role("button", name="Bad", exact=True).tap()

    await expect(tab.locator("mark.bad")).to_have_text("very")
    assert await words() == [("very", -1)]


async def test_words_of_a_page_that_is_out_of_date_are_not_marked(open_tab, told):
    tab = await open_tab(hears=False)  # a socket that catches up after the change would bring the page up to date
    await Turn.objects.filter(pk=told.pk).aupdate(text="Another reply altogether, and a longer one than that.")
    await select(tab, "A rainbow")
    await tab.keyboard.press("b")
    await expect(tab.locator("#announcer")).to_contain_text("These are not the words of the reply as it stands")
    assert await words() == []


async def test_a_rewrite_shows_what_it_changes_before_it_is_sent_and_afterwards(open_tab):
    tab = await open_tab()
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await tab.get_by_text("It should have said …").click()
    box = tab.get_by_label("What should it have said?")
    await box.fill(REPLY.replace("very, very** pretty", "quite** pretty"))
    await expect(tab.locator(".difference del")).to_have_text("very, very")
    await expect(tab.locator(".difference ins")).to_have_text("quite")
    assert not await Feedback.objects.aexists()
    await tab.get_by_role("button", name="Teach this").and_(tab.locator(":visible")).click()
    await expect(tab.locator(".saved")).to_have_text("Saved")
    await tab.reload()
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await expect(tab.locator(".difference ins")).to_have_text("quite")


async def test_anything_else_is_kept_beside_a_thumb(open_tab):
    tab = await open_tab()
    await tab.get_by_role("button", name="Good reply").click()
    await tab.get_by_label("Anything else about this reply").fill("Just what I wanted.")
    await tab.keyboard.press("Enter")
    async with tab.expect_response(lambda answer: "tags=clear" in (answer.request.post_data or "")):
        await tab.get_by_text("clear", exact=True).click()
    await expect(tab.get_by_role("checkbox", name="clear")).to_be_checked()
    await tab.reload()
    await expect(tab.get_by_label("Anything else about this reply")).to_have_value("Just what I wanted.")
    thumb = await Feedback.objects.standing().aget()
    assert (thumb.value, thumb.text, thumb.tags) == (1, "Just what I wanted.", ["clear"])
