"""Drafts, the theme, the list of keys and installing, in a real browser."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from chat.models import Session

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import becomes

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
LIGHT, DARK = "rgb(251, 250, 248)", "rgb(22, 22, 21)"  # --ground of static/app.css


@pytest.fixture
def session(ana) -> Session:
    return Session.objects.create(user=ana)


async def picture(tab: Page, name: str) -> None:
    """Kept where SHOTS says, and nowhere by default."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", caret="initial")


DRAFTS = "() => Object.keys(localStorage).filter((name) => name.startsWith('draft:')).length"


async def test_a_draft_survives_a_reload_in_its_chat_alone(open_tab, engine, session, ana):
    other = await Session.objects.acreate(user=ana)
    tab = await open_tab(f"/chats/{session.pk}/")
    box = tab.get_by_label("Your message")
    await box.fill("Half a\nsentence")
    await tab.reload()
    await expect(box).to_have_value("Half a\nsentence")
    for elsewhere in (f"/chats/{other.pk}/", "/chats/new/"):
        await tab.goto(tab.url.partition("/chats/")[0] + elsewhere)
        await expect(box).to_have_value("")
    await tab.goto(tab.url.partition("/chats/")[0] + f"/chats/{session.pk}/")
    await expect(box).to_have_value("Half a\nsentence")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn.served")).to_have_count(1)
    await becomes(tab, DRAFTS, 0)
    await tab.reload()
    await expect(box).to_have_value("")


async def test_the_draft_of_a_new_chat_is_gone_once_it_was_sent(open_tab, engine):
    tab = await open_tab("/chats/new/")
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.reload()
    await expect(tab.get_by_label("Your message")).to_have_value("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn.served")).to_have_count(1)
    await becomes(tab, DRAFTS, 0)


async def test_drafts_go_with_their_person_and_old_ones_by_themselves(open_tab, engine, session):
    tab = await open_tab()
    month_ms = 30 * 24 * 3600 * 1000
    await tab.evaluate(
        f"localStorage.setItem('draft:1/old', JSON.stringify({{text: 'x', at: Date.now() - {month_ms}}}))"
    )
    await tab.reload()
    await becomes(tab, DRAFTS, 0)
    await tab.get_by_label("Your message").fill("A secret")
    await becomes(tab, DRAFTS, 1)
    await tab.locator(".person > summary").click()
    await tab.get_by_role("button", name="Sign out").click()
    await expect(tab).to_have_url(re.compile("/login"))
    await becomes(tab, DRAFTS, 0)


@pytest.mark.parametrize(("system", "of_system"), [("light", LIGHT), ("dark", DARK)])
async def test_the_theme_is_light_dark_or_the_systems_and_stays(open_tab, session, system, of_system):
    tab = await open_tab()
    await tab.emulate_media(color_scheme=system)
    switch, page = tab.locator("[data-theme-switch]"), tab.locator("html")
    for name, colour in (("as the system", of_system), ("light", LIGHT), ("dark", DARK)):
        await expect(switch).to_have_attribute("title", f"Theme: {name}")
        await expect(page).to_have_css("background-color", colour)
        await tab.reload()
        await expect(switch).to_have_attribute("title", f"Theme: {name}")
        await expect(page).to_have_css("background-color", colour)
        await switch.click()
    await expect(switch).to_have_attribute("title", "Theme: as the system")
    await expect(page).to_have_css("background-color", of_system)


async def test_the_theme_is_on_the_page_before_anything_is_drawn(open_tab, session):
    tab = await open_tab()
    await tab.emulate_media(color_scheme="light")
    await tab.evaluate("localStorage.setItem('theme', 'dark')")
    await tab.add_init_script("""document.addEventListener("readystatechange", () => {
        window.first ??= document.documentElement.dataset.theme })""")
    await tab.reload()
    assert await tab.evaluate("window.first") == "dark"


@pytest.mark.parametrize(
    ("is_staff", "size"),
    [
        (False, DESKTOP),
        (True, PHONE),
        pytest.param(False, PHONE, marks=pytest.mark.repeats),
        pytest.param(True, DESKTOP, marks=pytest.mark.repeats),
    ],
    ids=["False-desktop", "True-phone", "False-phone", "True-desktop"],
)
async def test_a_question_mark_lists_the_keys_that_a_person_has(open_tab, ana, session, engine, size, is_staff):
    if is_staff:
        await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    tab = await open_tab()
    await tab.set_viewport_size(size)
    box, keys = tab.get_by_label("Your message"), tab.locator("#all-keys")
    await box.focus()
    await tab.keyboard.type("Why?")
    await expect(keys).to_be_hidden()  # a question is a question
    await tab.locator(".scroll").focus()
    await tab.keyboard.press("?")
    await expect(keys).to_be_visible()
    await expect(keys.get_by_text("send, or save what you teach")).to_be_visible()
    await expect(keys.get_by_role("heading", name="Console")).to_have_count(1 if is_staff else 0)
    await becomes(keys, "it => it.scrollWidth <= it.clientWidth")
    await picture(tab, f"keys-{size['width']}-{is_staff}")
    await tab.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    await expect(tab.locator(".scroll")).to_be_focused()


async def test_escape_in_the_list_of_keys_stops_no_reply(open_tab, session, engine):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=6)
    tab = await open_tab()
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn .prose")).to_contain_text("Hello")
    await tab.get_by_role("button", name="All keys").click()
    await expect(tab.locator("#all-keys")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#all-keys")).to_be_hidden()
    engine.release()
    await expect(tab.locator(".turn .prose")).to_have_text("Hello, captain, and welcome.")


@pytest.mark.parametrize("how", ["key", "button"])
async def test_after_a_reply_was_stopped_enter_sends_the_next_message(open_tab, session, engine, how):
    engine.says("Hello, captain, and welcome.")
    engine.hold(after=6)
    tab = await open_tab()
    box = tab.get_by_label("Your message")
    await box.fill("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn .prose")).to_contain_text("Hello")
    await (tab.keyboard.press("Escape") if how == "key" else tab.get_by_role("button", name="Stop").click())
    await expect(tab.locator(".turn .chip")).to_have_text("stopped")
    engine.release()
    await box.fill("Say it again")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".said.user")).to_have_text(["You said: Say hello", "You said: Say it again"])


async def test_what_is_done_in_a_chat_that_was_deleted_elsewhere_says_that_it_is_gone(open_tab, session, engine):
    engine.says("Hello.")
    tab = await open_tab()
    box, note = tab.get_by_label("Your message"), tab.locator("#complaint")
    await box.fill("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn.served")).to_have_count(1)
    await Session.objects.filter(pk=session.pk).aupdate(deleted_at=timezone.now())
    await box.fill("And again")
    await tab.keyboard.press("Enter")
    await expect(note).to_have_text("There is nothing here, or it is not yours to see.")
    await expect(box).to_have_value("And again")
    await note.evaluate("it => it.hidden = true")
    thumb = tab.get_by_role("button", name="Good reply")
    await thumb.click()
    await expect(note).to_be_visible()
    await expect(thumb).to_be_visible()  # no part of the page was replaced by a page about a failure


async def test_what_never_reached_the_server_is_said_and_nothing_empty_is_left_open(open_tab, session, engine):
    engine.says("Hello.")
    tab = await open_tab()
    note, teach = tab.locator("#complaint"), tab.get_by_role("button", name="Teach")
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn.served")).to_have_count(1)
    await tab.context.set_offline(True)
    await tab.get_by_role("button", name="Good reply").click()
    await expect(note).to_have_text("Talkback cannot be reached just now. Try again in a moment.")
    await teach.click()
    await expect(tab.locator(".correction")).to_be_hidden()
    await tab.context.set_offline(False)
    await teach.click()
    await expect(tab.get_by_label("What should it do next time?")).to_be_focused()


async def test_a_second_click_on_a_form_that_is_on_its_way_sends_nothing(open_tab, session, ana):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    tab = await open_tab("/console/people/")
    clicks = """button => {
      const sent = [];
      addEventListener("submit", (event) => {
        sent.push(!event.defaultPrevented);
        event.preventDefault(); // the page stays, so that a second click is possible however fast the server is
      });
      button.click();
      button.click();
      return sent;
    }"""
    assert await tab.get_by_role("button", name="Make the invitation").evaluate(clicks) == [True, False]


async def test_it_can_be_installed(open_tab, session):
    tab = await open_tab()
    link = await tab.locator("link[rel=manifest]").get_attribute("href")
    found = await tab.evaluate(
        """async (link) => {
        const manifest = await (await fetch(link)).json();
        const sizes = await Promise.all(manifest.icons.map(async ({ src }) => {
            const icon = new Image();
            icon.src = new URL(src, new URL(link, location));
            await icon.decode();
            return `${icon.naturalWidth}x${icon.naturalHeight}`;
        }));
        return { manifest, sizes };
    }""",
        link,
    )
    manifest, sizes = found["manifest"], found["sizes"]
    assert (manifest["name"], manifest["start_url"], manifest["display"]) == ("Talkback", "/", "standalone")
    assert [icon["sizes"] for icon in manifest["icons"]][1:] == sizes[1:] == ["192x192", "512x512", "512x512"]
    # What Chromium itself says of it: no fault in the manifest, nothing that the policy of the page refused.
    devtools = await tab.context.new_cdp_session(tab)
    said = await devtools.send("Page.getAppManifest")
    assert said["url"].endswith("app.webmanifest")
    assert said["errors"] == []
    faults = (await devtools.send("Page.getInstallabilityErrors"))["installabilityErrors"]
    assert [fault["errorId"] for fault in faults] == ["in-incognito"]  # as every context of a test is


async def test_the_sign_in_page_has_the_theme_and_the_manifest_and_no_keys(open_tab, client):
    html = (await sync_to_async(Client().get)("/login/")).content.decode()
    assert "data-theme-switch" in html
    assert 'rel="manifest"' in html
    assert "all-keys" not in html


async def test_the_second_skip_link_leads_to_the_newest_reply(open_tab, session, engine):
    tab = await open_tab(f"/chats/{session.pk}/")
    turns, focused = tab.locator("#turns > article"), tab.locator("*:focus")
    for number in range(1, 4):  # the second and the third were not there when the page came
        await tab.get_by_label("Your message").fill(f"Say {number}")
        await tab.keyboard.press("Enter")
        await expect(tab.locator(".turn.served")).to_have_count(number)
        await tab.get_by_role("link", name="Skip to content").focus()
        await tab.keyboard.press("Tab")
        await expect(focused).to_have_text("To the newest reply")
        await tab.keyboard.press("Enter")
        await expect(turns.last).to_be_focused()
        await expect(turns.last).to_have_accessible_name(f"Turn {number}")
        await tab.keyboard.press("Tab")
        await expect(turns.last.locator("*:focus")).to_have_count(1)


async def test_without_scripts_the_second_skip_link_leads_to_the_newest_reply(
    open_tab, session, engine, chromium, playwright, site, client
):
    tab = await open_tab(f"/chats/{session.pk}/")
    for number in (1, 2):
        await tab.get_by_label("Your message").fill(f"Say {number}")
        await tab.keyboard.press("Enter")
        await expect(tab.locator(".turn.served")).to_have_count(number)
    browser = await playwright.chromium.connect(chromium.address)
    context = await browser.new_context(java_script_enabled=False)
    await context.add_cookies(await tab.context.cookies())
    plain = await context.new_page()
    await plain.goto(f"{site}/chats/{session.pk}/")
    link = plain.get_by_role("link", name="To the newest reply")
    await link.focus()
    await plain.keyboard.press("Enter")
    await expect(plain.locator("#turns > article").last).to_be_focused()
    await browser.close()
