"""The list of chats, its search, the bin and an import, as a person uses them on a desk and on a phone."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from chat.models import Session, Turn
from chat.search import keeping
from checkpoints.models import Checkpoint
from tests.chat.imports.exports import chatgpt, rating, zipped

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
WIDE_FIRST = pytest.mark.parametrize(
    "size", [DESKTOP, pytest.param(PHONE, marks=pytest.mark.repeats)], ids=["1280", "390"]
)
NARROW_FIRST = pytest.mark.parametrize(
    "size", [pytest.param(DESKTOP, marks=pytest.mark.repeats), PHONE], ids=["1280", "390"]
)


async def picture(tab: Page, name: str) -> None:
    """Kept where SHOTS says, and nowhere by default."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", caret="initial")


@pytest.fixture
def chats(ana) -> list[Session]:
    """Five chats of five days, the first with 130 turns, in the ninth of which a needle is found."""
    made = []
    for n, (title, days) in enumerate((("Rain", 0), ("Snow", 1), ("Hail", 4), ("Wind", 40), ("Fog", 400))):
        at = timezone.now() - timedelta(days=days)
        session = Session.objects.create(user=ana, title=title, active_at=at)
        keeping.keep_title(session)
        before = None
        for place in range(130 if n == 0 else 1):
            said = "Where is the needle?" if place == 8 and n == 0 else f"Question {place} on {title}"
            before = Turn.objects.create(
                session=session, position=place, follows=before, status="closed", finish_reason="stop",
                checkpoint=Checkpoint.live(), messages=[{"role": "user", "content": said}],
                text=f"Reply {place}, in which <b>words</b> stand. " * 3,
            )  # fmt: skip
            keeping.keep_turn(before, session)
        made.append(session)
    return made


async def open_list(tab: Page, size) -> None:
    if size["width"] < 500:
        await tab.get_by_role("button", name="Chats", exact=True).click()
    await expect(tab.locator("#chat-list")).to_be_visible()


async def open_menu(tab: Page, title: str) -> None:
    row = tab.locator("#chats li", has=tab.get_by_role("link", name=title, exact=True))
    await row.hover()
    await row.locator(".row-menu").click()
    await expect(tab.locator("#row-menu")).to_be_visible()


@NARROW_FIRST
async def test_a_chat_is_renamed_pinned_filed_and_archived_from_the_list(open_tab, chats, size):
    tab = await open_tab(f"/chats/{chats[0].pk}/")
    await tab.set_viewport_size(size)
    await open_list(tab, size)
    headings = tab.locator("#chat-list h2")
    months = [f"{chats[n].active_at:%B %Y}" for n in (3, 4)]
    await expect(headings).to_have_text(["Today", "Yesterday", "Previous 7 days", *months])
    await picture(tab, f"list-{size['width']}")

    await open_menu(tab, "Rain")
    await picture(tab, f"list-menu-{size['width']}")
    await expect(tab.locator("#row-menu").get_by_label("Name")).to_be_focused()
    await tab.locator("#row-menu").get_by_label("Name").fill("Showers")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#row-menu")).to_be_hidden()
    await expect(tab.locator("#chat-list [aria-current]")).to_have_text("Showers")
    await expect(tab.locator(".talk-head h1")).to_have_text("Showers")

    await open_menu(tab, "Fog")
    await tab.get_by_role("button", name="Pin", exact=True).click()
    await expect(headings.first).to_have_text("Pinned")
    await open_menu(tab, "Wind")
    await tab.get_by_label("or a new one").fill("Work")
    await tab.get_by_role("button", name="Move").click()
    await expect(tab.get_by_role("link", name="Work 1")).to_be_visible()
    await open_menu(tab, "Hail")
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#row-menu")).to_be_hidden()
    if not await tab.locator("#chat-list").is_visible():
        await open_list(tab, size)
    await open_menu(tab, "Hail")
    await tab.get_by_role("button", name="Archive").click()
    await expect(headings).to_have_text(["Folders", "Pinned", "Today", "Yesterday"])
    await fits(tab)
    await tab.get_by_role("link", name="Archive").click()
    await expect(tab.get_by_role("link", name="Hail", exact=True)).to_be_visible()
    await picture(tab, f"archive-{size['width']}")
    await fits(tab)


@WIDE_FIRST
async def test_a_deleted_chat_is_gone_at_once_and_comes_back(open_tab, chats, size):
    tab = await open_tab(f"/chats/{chats[0].pk}/")
    await tab.set_viewport_size(size)
    await open_list(tab, size)
    names = tab.locator("#chat-list .name")
    await open_menu(tab, "Snow")
    await tab.locator("#row-menu").get_by_role("button", name="Delete").click()
    await expect(names).to_have_text(["Rain", "Hail", "Wind", "Fog"])
    await expect(tab.get_by_text("“Snow” is in the bin.")).to_be_visible()
    await expect(tab.get_by_role("button", name="Undo")).to_be_focused()
    await picture(tab, f"undo-{size['width']}")
    await tab.keyboard.press("Enter")
    await expect(names).to_have_text(["Rain", "Snow", "Hail", "Wind", "Fog"])

    await open_menu(tab, "Rain")  # the one that is open
    await tab.locator("#row-menu").get_by_role("button", name="Delete").click()
    await expect(tab).to_have_url(f"{tab.url.split('/chats')[0]}/chats/new/?gone={chats[0].pk}")
    await open_list(tab, size)
    await expect(tab.get_by_text("“Rain” is in the bin.")).to_be_visible()
    await tab.get_by_role("link", name="Bin", exact=True).click()
    await expect(tab.get_by_role("button", name="Take back “Rain”")).to_be_visible()
    await picture(tab, f"bin-{size['width']}")
    await fits(tab)
    await tab.get_by_role("button", name="Take back “Rain”").click()
    await expect(tab.locator(".talk-head h1")).to_have_text("Rain")


@NARROW_FIRST
async def test_a_word_is_found_as_one_types_and_opens_the_chat_there(open_tab, chats, size):
    tab = await open_tab("/chats/new/")
    await tab.set_viewport_size(size)
    await tab.get_by_label("Your message").focus()
    await tab.keyboard.press("Control+k")
    await expect(tab.get_by_label("Search all chats")).to_be_focused()
    await tab.keyboard.type("needl")
    hit = tab.locator("#chat-list .hit")
    await expect(hit).to_have_count(1)
    await expect(hit.locator("mark")).to_have_text("needle")
    await picture(tab, f"search-{size['width']}")
    await fits(tab)
    await tab.get_by_label("Search all chats").fill("")
    await expect(tab.locator("#chat-list h2").first).to_have_text("Today")
    await tab.get_by_label("Search all chats").fill("hail")
    await expect(hit).to_have_count(2)
    await tab.get_by_label("Search all chats").fill("needle")
    await expect(hit).to_have_count(1)
    await hit.click()
    found = tab.locator(".turn", has_text="Where is the needle?")
    await expect(found).to_be_in_viewport()
    await expect(found).to_have_id((tab.url.partition("#"))[2])
    await picture(tab, f"found-{size['width']}")


@WIDE_FIRST
async def test_chats_are_imported_and_gone_on_with(open_tab, engine, ana, tmp_path, size, settings):
    settings.DATA_DIR = tmp_path
    tab = await open_tab("/chats/import/")
    await tab.set_viewport_size(size)
    await picture(tab, f"import-{size['width']}")
    await fits(tab)
    file = {"name": "export.zip", "mimeType": "application/zip"}
    await tab.get_by_label("A file of at most 100 MB").set_input_files(
        file | {"buffer": zipped([chatgpt()], [rating("a2", text="Good one.")])}
    )
    await tab.get_by_role("button", name="Look into it").click()
    await expect(tab.get_by_role("heading", name="Chats from ChatGPT")).to_be_visible()
    await picture(tab, f"import-look-{size['width']}")
    await fits(tab)
    await tab.get_by_role("button", name="Import these chats").click()
    await expect(tab.get_by_text("The import is done.")).to_be_visible()
    await tab.get_by_role("link", name="To your chats").click()
    await expect(tab.locator(".turn")).to_have_count(2)
    await expect(tab.locator(".turn").first.get_by_text("gpt-4o")).to_be_visible()
    await expect(tab.locator(".turn").first.get_by_role("button", name="Good reply")).to_have_attribute(
        "aria-pressed", "true"
    )
    await picture(tab, f"imported-{size['width']}")
    engine.says("From colder clouds.", to="And hail?")
    await tab.get_by_label("Your message").fill("And hail?")
    await tab.get_by_role("button", name="Send").click()
    await expect(tab.locator(".turn .prose").last).to_have_text("From colder clouds.")
    turn = await Turn.objects.select_related("follows").aget(text="From colder clouds.")
    assert (turn.follows.text, turn.line, len(turn.messages)) == ("Frozen water.", "main", 5)
    # It is a lesson like any other: what it followed was imported, and says nothing of it.
    assert await sync_to_async(Turn.objects.trainable().count)() == 1


async def test_the_list_and_search_work_without_scripts(open_tab, chats, chromium, playwright, site, client):
    tab = await open_tab("/chats/new/")
    browser = await playwright.chromium.connect(chromium.address)
    context = await browser.new_context(java_script_enabled=False)
    await context.add_cookies(await tab.context.cookies())
    plain = await context.new_page()
    await plain.goto(f"{site}/chats/{chats[1].pk}/")
    await plain.get_by_label("Search all chats").fill("needle")
    await plain.keyboard.press("Enter")
    await plain.locator(".hit").click()
    await expect(plain.locator(".turn", has_text="Where is the needle?")).to_be_visible()
    await plain.goto(f"{site}/chats/{chats[1].pk}/manage/")
    await plain.get_by_role("button", name="Delete").click()
    await expect(plain.get_by_text("“Snow” is in the bin.")).to_be_visible()
    await plain.get_by_role("button", name="Undo").click()
    await expect(plain.locator(".talk-head h1")).to_have_text("Snow")
    await browser.close()
