"""Branches as a person uses them: edit, try again, switch, on a desk and on a phone."""

from __future__ import annotations

import pytest

from chat.models import Turn

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import fits
from tests.chat.conftest import until
from tests.chat.page.acts import say
from tests.doubles.fake_engine import FakeEngine

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


async def edit(tab: Page, said: str, words: str) -> None:
    turn = tab.locator(".turn", has=tab.locator(".words", has_text=said))
    await turn.locator(".of-message").hover()
    await turn.get_by_label("Edit this message").click()
    box = turn.get_by_label("Other words for it")
    await expect(box).to_be_focused()
    await expect(box).to_have_value(said)
    await box.fill(words)
    await tab.keyboard.press("Enter")


async def talk_twice(tab: Page, engine: FakeEngine, *, seen_in: Page) -> None:
    engine.says("Hello.")
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .prose")).to_have_text("Hello.")
    engine.says("Bonjour.")
    await say(tab, "And in French?")
    await expect(seen_in.locator(".turn .prose").last).to_have_text("Bonjour.")


@pytest.mark.parametrize("size", [pytest.param(DESKTOP, marks=pytest.mark.repeats), PHONE], ids=["1280", "390"])
async def test_an_edit_branches_and_the_switch_leads_back_and_is_kept(open_tab, engine, session, size):
    tab = await open_tab()
    await tab.set_viewport_size(size)
    await talk_twice(tab, engine, seen_in=tab)

    engine.says("Good night.")
    await edit(tab, "Say hello", "Say good night")

    await expect(tab.locator(".turn")).to_have_count(1)
    await expect(tab.locator(".turn .prose")).to_have_text("Good night.")
    await expect(tab.locator(".of-message .switch")).to_contain_text("2/2")
    await fits(tab)

    await tab.get_by_label("Your message").fill("half a")
    await tab.get_by_role("button", name="Wording before this").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn .prose").last).to_have_text("Bonjour.")
    await expect(tab.locator(".said .words").first).to_have_text("Say hello")
    await expect(tab.get_by_role("button", name="Wording before this")).to_be_focused()
    await expect(tab.get_by_label("Your message")).to_have_value("half a")
    await tab.reload()
    await expect(tab.locator(".turn .prose").last).to_have_text("Bonjour.")

    engine.says("Hola.")
    await say(tab, "And in Spanish?")
    await expect(tab.locator(".turn .prose").last).to_have_text("Hola.")
    said = [message["content"] for message in (await Turn.objects.alast()).messages]
    assert said == ["Say hello", "Hello.", "And in French?", "Bonjour.", "And in Spanish?"]


@pytest.mark.parametrize("size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["1280", "390"])
async def test_an_older_reply_is_tried_again_in_both_tabs_and_what_followed_is_behind_the_switch(
    open_tab, engine, session, size
):
    tab, other = await open_tab(), await open_tab()
    await tab.set_viewport_size(size)
    await talk_twice(tab, engine, seen_in=other)

    engine.says("Ahoy.")
    await tab.locator(".turn").first.hover()
    await tab.get_by_role("button", name="Try again").first.click()

    for one in (tab, other):
        await expect(one.locator(".turn")).to_have_count(1)
        await expect(one.locator(".turn .prose")).to_have_text("Ahoy.")
        await expect(one.get_by_text("2/2")).to_be_visible()
    await tab.get_by_role("button", name="Try before this").click()
    await expect(tab.locator(".turn .prose").last).to_have_text("Bonjour.")
    await expect(other.locator(".turn .prose")).to_have_text("Ahoy.")

    engine.says("Ciao.")
    await say(other, "And in Italian?")  # goes on from what this tab shows
    await expect(other.locator(".turn .prose").last).to_have_text("Ciao.")
    said = [message["content"] for message in (await Turn.objects.alast()).messages]
    assert said == ["Say hello", "Ahoy.", "And in Italian?"]


async def test_a_reply_that_ends_on_another_branch_stays_there(open_tab, engine, session):
    tab = await open_tab()
    engine.says("Hello.")
    await say(tab, "Say hello")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    engine.says("Ahoy, captain, and welcome.")
    engine.hold(after=3)
    await tab.get_by_role("button", name="Try again").click()
    await expect(tab.locator(".turn.answering")).to_have_count(1)
    await tab.get_by_role("button", name="Try before this").click()
    await expect(tab.locator(".turn .prose")).to_have_text("Hello.")
    engine.release()

    async def served() -> bool:
        return (await Turn.objects.alast()).status == Turn.Status.SERVED

    await until(served, "the reply on the other branch")
    await expect(tab.locator(".turn .prose")).to_have_text("Hello.")
    await tab.get_by_role("button", name="Try after this").click()
    await expect(tab.locator(".turn .prose")).to_have_text("Ahoy, captain, and welcome.")
    await expect(tab.locator(".turn")).to_have_count(1)
