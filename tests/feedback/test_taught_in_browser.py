"""A wish in a real browser: said beside a reply, shown under it, put in other words by keyboard, taken back."""

from __future__ import annotations

import os

import pytest
from asgiref.sync import sync_to_async

from feedback.models import Feedback

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import keeps_still

# The site, and a tab on a chat with one reply.
from tests.feedback.test_marks_in_browser import open_tab, site, told  # noqa: F401

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]

MERGE, ONE = "Merge the paragraphs into one and send it again", "Write the whole reply as one paragraph."
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True}


async def say(by, turn, text: str) -> None:
    await sync_to_async(Feedback.objects.give)(turn, by=by, kind="guidance", text=text)


async def picture(tab: Page, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=f"{folder}/{name}.png")


@pytest.mark.parametrize("options", [{}, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["desktop", "phone"])
async def test_the_wish_is_put_in_other_words_by_keyboard_and_taken_back(open_tab, ana, told, options):  # noqa: F811
    await say(ana, told, MERGE)
    tab = await open_tab(**options)
    under = tab.locator(f"#taught-{told.pk}")
    await expect(under).to_contain_text(f"You taught: {ONE}")
    await expect(under).to_contain_text(f"You wrote: {MERGE}")
    await picture(tab, f"taught-{'phone' if options else 'desktop'}")

    await under.get_by_text("Edit", exact=True).focus()
    await tab.keyboard.press("Enter")
    box = under.get_by_label("What every reply should do")
    await box.fill("Redo it in one paragraph")
    await box.press("Enter")
    await expect(under.get_by_role("alert")).to_contain_text("“Redo it” speaks of an earlier reply.")
    await expect(box).to_have_value("Redo it in one paragraph")  # nothing that was typed is lost
    await picture(tab, f"refused-{'phone' if options else 'desktop'}")

    await box.fill("Write one paragraph of five sentences.")
    await box.press("Enter")
    await expect(under).to_contain_text("You taught: Write one paragraph of five sentences.")
    assert (await Feedback.objects.standing().aget()).wish == "Write one paragraph of five sentences."

    await under.get_by_role("button", name="Undo: take back your guidance").press("Enter")
    await expect(under).not_to_contain_text("You taught")
    assert not await Feedback.objects.standing().aexists()
    await keeps_still(tab)


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.repeats), PHONE], ids=["desktop", "phone"])
async def test_guidance_that_waits_asks_for_its_wording_under_the_reply(open_tab, ana, told, options):  # noqa: F811
    await say(ana, told, "Redo the second point. Stop apologising to me.")
    tab = await open_tab(**options)
    under = tab.locator(f"#taught-{told.pk}")
    box = under.get_by_label("Say it so that it holds for every reply")
    await expect(box).to_have_value("Stop apologising to me.")
    await picture(tab, f"asked-{'phone' if options else 'desktop'}")
    await under.get_by_role("button", name="Teach this").click()
    await expect(under).to_contain_text("You taught: Stop apologising to me.")


async def test_what_is_said_on_the_page_stands_under_the_reply_at_once(open_tab, told):  # noqa: F811
    tab = await open_tab()
    await tab.locator(".opener.teach").first.click()
    await tab.get_by_text("Next time, do …").click()
    guidance = tab.get_by_label("What should it do next time?")
    await guidance.fill(MERGE)
    await guidance.press("Enter")
    await expect(tab.locator(f"#taught-{told.pk}")).to_contain_text(f"You taught: {ONE}")
