"""What a person opened, presses or is at while the page is drawn anew under them."""

from __future__ import annotations

import asyncio
import re

import pytest

from chat.models import Turn

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import becomes, hold
from tests.chat.page.acts import draw_again, say, stands

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

AFRESH = """() => addEventListener("toggle", ({ target }) => {
    if (target.open) setTimeout(() => { document.body.dataset.drawn = target.className });
}, true)"""
"""Notes what folds come to be open from now on, once all that answers to it has."""


async def draw(tab: Page, session, way: str) -> None:
    await tab.evaluate(AFRESH)
    await draw_again(session)
    if way == "refreshed":
        await tab.evaluate("refresh()")
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_attached()


@pytest.mark.parametrize("way", ["pushed", "refreshed"])
@pytest.mark.parametrize("fold", ["journey", "edit"])
async def test_a_person_who_reads_elsewhere_is_not_brought_back_to_what_they_left_open(
    open_tab, engine, session, fold, way
):
    tab = await open_tab()
    await tab.set_viewport_size({"width": 1000, "height": 400})
    for reply in ("\n\n".join("A line." for _ in range(30)), "Well."):
        engine.says(reply)
        await say(tab, "And then?")
        await expect(tab.locator(".turn > .reply > .prose").last).to_have_text(reply.replace("\n\n", "\n"))
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_count(2)
    await tab.locator(".of-message").last.hover()
    await tab.locator(f".{fold} > summary").last.click()
    await expect(tab.locator(f".{fold}[open]")).to_have_count(1)
    await tab.evaluate("document.activeElement.blur()")
    await becomes(tab.locator(".scroll"), "one => { one.scrollTop = 10; return one.scrollTop }", 10)

    await draw(tab, session, way)

    await expect(tab.locator(f"body[data-drawn={fold}]")).to_have_count(1)
    await expect(tab.locator(f".{fold}[open]")).to_have_count(1)
    assert await tab.locator(".scroll").evaluate("one => one.scrollTop") == 10
    assert await tab.evaluate("document.activeElement === document.body")


async def test_a_thumb_that_is_being_pressed_when_the_page_asks_what_it_missed_is_given(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    thumb = tab.get_by_role("button", name="Bad reply")
    await thumb.focus()
    await tab.keyboard.down("Space")
    await Turn.objects.filter(session=session).aupdate(finish_reason="length")
    await tab.evaluate("refresh()")
    await expect(tab.get_by_text("Cut off at its length limit.")).to_have_count(0)  # not under the press
    await tab.keyboard.up("Space")
    await expect(thumb).to_have_attribute("aria-pressed", "true")
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    assert [said.value for said in await stands("thumb")] == [-1]


async def test_a_link_whose_answer_is_on_its_way_keeps_the_focus_when_the_page_is_drawn_anew(
    open_tab, engine, session, monkeypatch
):
    monkeypatch.setattr("chat.branches.SHOWN", 1)
    tab = await open_tab()
    for times in (1, 2):
        await say(tab, "And then?")
        await expect(tab.get_by_role("button", name="Bad reply")).to_have_count(times)
    await tab.reload()
    link = tab.get_by_role("link", name="Earlier messages")
    asked = asyncio.Event()

    async def never(route) -> None:
        asked.set()

    await hold(tab, re.compile(r"\?before="), never)
    await link.evaluate("link => link.focus({ preventScroll: true })")
    await tab.keyboard.press("Enter")
    await asyncio.wait_for(asked.wait(), 30)
    await expect(link).to_contain_class("htmx-request")
    await Turn.objects.filter(session=session).aupdate(finish_reason="length")
    await tab.evaluate("refresh()")
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(link).to_be_focused()
