"""The moment of teaching, in a real browser: nothing moves, and what opens is in view."""

from __future__ import annotations

import pytest

from chat.models import Session

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Locator, Page, expect

from tests.browser.fitting import becomes
from tests.browser.taught_chat import article, stays

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


BOXES = """(turn) => [...turn.querySelectorAll(".about > .journey > summary, .controls button, .record-turn button")]
    .filter((one) => one.offsetParent)
    .map((one) => {
        const { x, y } = one.getBoundingClientRect();
        const row = turn.getBoundingClientRect();
        return [one.id || one.title, Math.round(x - row.x), Math.round(y - row.y)];
    })"""
"""Where each control of a turn is, measured from the turn."""


SEEN = """(element) => {
    const [box, frame] = [element, document.querySelector(".scroll")].map((one) => one.getBoundingClientRect());
    const most = Math.min(box.height, frame.height);
    const seen = Math.min(box.bottom, frame.bottom) - Math.max(box.top, frame.top);
    if (box.height > 0 && box.left >= 0 && box.right <= window.innerWidth && seen >= most - 60) return true;
    return JSON.stringify([element.id, element.closest("article")?.ariaLabel, box, frame]);
}"""
"""Whether all of it is seen, or as much as the list has room for; else where it is."""


async def sees(tab: Page, what: Locator) -> None:
    await expect(what).to_be_visible()
    await becomes(what, SEEN)
    await stays(tab)


@pytest.mark.parametrize("size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["desktop", "phone"])
async def test_nothing_but_the_list_of_messages_scrolls_and_no_control_moves(open_tab, chat, size):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.set_viewport_size(size)
    await stays(tab)
    for position in (*range(10), 12, 19):  # each kind of turn in `chat`, and the last one; the others are as the first
        turn = await article(tab, position)
        await turn.scroll_into_view_if_needed()
        # the chip, and what is behind it
        await turn.locator(".journey > summary").first.click()
        await sees(tab, turn.locator(".journey .panel").first)
        await tab.keyboard.press("Escape")
        # Teach opens and closes by the same button, and moves no other one
        before = await turn.evaluate(BOXES)
        teach = turn.locator(".opener.teach").first
        await teach.click()
        await expect(teach).to_have_attribute("aria-expanded", "true")
        box = turn.locator(".correction").first
        await sees(tab, box)
        await becomes(turn, BOXES, before)
        for label in ("It should have said", "Next time, do"):
            await box.locator(".tabs label").get_by_text(label).click()
            await sees(tab, box)
        await teach.click()
        await expect(box).to_be_hidden()
        await expect(teach).to_have_attribute("aria-expanded", "false")
        # so does the button of the marks
        marks = turn.locator(".controls .opener").nth(1)
        await marks.click()
        await sees(tab, turn.locator(".marking").first)
        await becomes(turn, BOXES, before)
        await marks.click()
        await becomes(turn, BOXES, before)
        # a thumb up, its reasons, and back
        if position % 4 == 0:
            await turn.get_by_role("button", name="Good reply").click()
            await sees(tab, turn.locator(".reasons"))
            await turn.locator(".reasons label").nth(1).click()
            await stays(tab)
            await turn.get_by_role("button", name="Bad reply").click()
            await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
            await sees(tab, box)
            await turn.locator(".reasons label").nth(2).click()
            await expect(turn.locator(".saved")).to_have_text("Saved")
            await turn.get_by_role("button", name="Undo: take back your thumb").click()
            await expect(turn.locator(".reasons label")).to_have_count(0)
        await stays(tab)


async def test_older_replies_are_quiet_until_they_are_pointed_at_or_reached(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.mouse.move(5, 5)
    turn, last = await article(tab, 18), await article(tab, 19)
    teach = turn.locator(".opener.teach")
    await expect(teach).to_have_css("opacity", "0")
    await expect(last.locator(".opener.teach")).to_have_css("opacity", "1")
    await turn.hover()
    await expect(teach).to_have_css("opacity", "1")
    await tab.mouse.move(5, 5)
    await expect(teach).to_have_css("opacity", "0")
    await turn.get_by_role("button", name="Good reply").focus()
    await expect(teach).to_have_css("opacity", "1")


async def test_no_style_is_refused_by_the_security_policy(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    await tab.evaluate("""() => {
        window.refused = [];
        const note = (event) => window.refused.push(event.violatedDirective);
        document.addEventListener("securitypolicyviolation", note);
    }""")
    turn = await article(tab, 19)
    await turn.locator(".opener.teach").click()
    box = turn.get_by_label("What should it do next time?")
    await box.evaluate("box => { box.style.height = '160px'; }")  # as a drag of its corner does
    await box.fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await expect(turn.locator(".chip").first).to_have_text("being judged")
    assert await tab.evaluate("window.refused") == []


async def test_earlier_messages_come_in_above_by_scrolling_and_what_is_read_stays(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.branches.SHOWN", 8)
    tab = await open_tab(f"/chats/{chat.pk}/")
    turns = tab.locator("#turns > article")
    await expect(turns).to_have_count(8)
    before = await turns.first.get_attribute("id")
    await tab.evaluate(
        """(id) => new Promise((done) => {
            const [list, one] = [document.querySelector(".scroll"), document.getElementById(id)];
            const seen = [];
            window.places = seen;
            const note = () => {
                seen.push(Math.round(one.getBoundingClientRect().y - list.getBoundingClientRect().y));
                requestAnimationFrame(note);
            };
            list.scrollTop = 300;
            requestAnimationFrame(() => { note(); done(); });
        })""",
        before,
    )
    await expect(turns).to_have_count(16)
    await tab.evaluate("() => new Promise((done) => setTimeout(done, 0))")
    places = await tab.evaluate("window.places")
    assert max(places) - min(places) <= 1  # in no frame was it elsewhere
    await stays(tab)


async def test_earlier_messages_come_in_above_by_a_link_until_there_are_none(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.branches.SHOWN", 8)
    tab = await open_tab(f"/chats/{chat.pk}/")
    turns = tab.locator("#turns > article")
    link = tab.get_by_role("link", name="Earlier messages")
    await link.evaluate("link => link.focus({ preventScroll: true })")
    await tab.keyboard.press("Enter")
    await expect(turns).to_have_count(16)
    await expect(tab.get_by_label("Turn 12", exact=True)).to_be_focused()  # 13 to 20 stood there: it came last
    await tab.evaluate("refresh()")
    await expect(turns).to_have_count(16)
    await link.evaluate("link => link.click()")
    await expect(turns).to_have_count(20)
    await expect(link).to_have_count(0)
    await stays(tab)


async def test_more_chats_come_in_below(open_tab, chat, monkeypatch):
    monkeypatch.setattr("chat.listing.pages.LISTED", 3)
    for n in range(5):
        await Session.objects.acreate(user_id=chat.user_id, title=f"Chat {n}")
    tab = await open_tab(f"/chats/{chat.pk}/")
    names = tab.locator(".chats .name")
    await expect(names).to_have_count(3)
    await tab.get_by_role("link", name="Older chats").click()
    await expect(names).to_have_text(["Chat 4", "Chat 3", "Chat 2", "Chat 1", "Chat 0", "Rainbows"])
    await expect(tab.get_by_role("link", name="Older chats")).to_have_count(0)
