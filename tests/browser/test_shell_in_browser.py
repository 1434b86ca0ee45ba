"""The bar, the person's menu and the console's rail in a real browser: by mouse, by keyboard, on a phone."""

from __future__ import annotations

import re

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from accounts import deeds
from accounts.models import Role
from accounts.roles import give
from chat.api_keys import ApiKey
from checkpoints.models import Checkpoint
from training import config
from training.models import Run

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import becomes, hold, tables_fit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

PHONE = {"width": 390, "height": 844}


@pytest.fixture
async def operator(ana):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    return ana


BEYOND = """() => {
    const isInside = ({ left, right }) => left >= 0 && right <= innerWidth;
    const bar = [...document.querySelectorAll(".bar a, .bar button, .bar summary")];
    const shown = bar.filter((one) => one.checkVisibility());
    const cut = shown.filter((one) => !isInside(one.getBoundingClientRect())).map((one) => one.outerHTML);
    return document.documentElement.scrollWidth > innerWidth ? [location.pathname, ...cut] : cut;
}"""
"""The page, where it is wider than its window, and what of the bar is cut."""


async def test_a_page_is_found_in_two_clicks_with_the_mouse(open_tab, operator):
    tab = await open_tab("/console/")
    rail = tab.get_by_role("navigation", name="Console")
    await rail.get_by_text("Training", exact=True).click()
    await rail.get_by_role("link", name="Schedule").click()
    await expect(tab.get_by_role("heading", name="Schedule")).to_be_visible()
    await expect(rail.get_by_role("link", name="Schedule")).to_have_attribute("aria-current", "page")
    await rail.get_by_text("System", exact=True).click()  # one entry is open at a time
    await expect(rail.get_by_role("link", name="Engines")).to_be_visible()
    await expect(rail.get_by_role("link", name="Schedule")).to_be_hidden()


async def test_on_a_phone_no_table_of_the_usual_pages_is_scrolled_sideways(open_tab, operator, engine):
    def made() -> None:
        User.objects.create_user("maria-antonia-of-the-long-name")
        ApiKey.objects.issue(operator, "the telephone that lies on the kitchen table")
        said = {"error": "Stopped by a person before it began.", "finished_at": timezone.now()}
        recipe = config.PRESETS["combined"].model_dump()
        Run.objects.create(parent=Checkpoint.live(), recipe=recipe, status="failed", **said)
        deeds.note("people", "role changed", by=operator, whom=operator, about="reviewer to administrator")

    await sync_to_async(made)()
    tab = await open_tab("/console/people/")
    site = tab.url.partition("/console/")[0]
    await tab.set_viewport_size(PHONE)
    for path, shows in (
        ("/console/people/", "maria-antonia-of-the-long-name"),
        ("/connect/keys/", "the telephone that lies"),
        ("/console/runs/", "Stopped by a person"),
        ("/console/audit/", "role changed"),
        ("/console/people/consent/", "maria-antonia-of-the-long-name"),
        ("/console/judges/", "Rules that need no judge"),
    ):
        await tab.goto(site + path)
        await expect(tab.get_by_text(shows).first).to_be_visible()
        await tables_fit(tab)


async def test_the_persons_menu_opens_by_keyboard_and_closes_by_escape(open_tab, operator):
    tab = await open_tab("/console/runs/")
    await tab.get_by_role("link", name="Console").focus()
    for _ in range(12):
        await tab.keyboard.press("Tab")
        if await tab.evaluate("document.activeElement.matches('.person > summary')"):
            break
    await tab.keyboard.press("Enter")
    menu = tab.get_by_role("navigation", name="Yours")
    await expect(menu.get_by_role("link", name="Settings")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await tab.keyboard.press("Enter")
    await tab.keyboard.press("Tab")
    await tab.keyboard.press("Enter")
    await expect(tab).to_have_url(re.compile("/settings/$"))


@pytest.mark.parametrize("is_staff", [True, False])
async def test_on_a_phone_the_bar_is_whole_and_the_rail_is_a_menu(open_tab, ana, is_staff):
    if is_staff:
        await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    tab = await open_tab("/connect/")
    await tab.set_viewport_size(PHONE)
    await becomes(tab, BEYOND, [])
    await tab.locator(".person > summary").click()
    await expect(tab.get_by_role("button", name="Sign out")).to_be_in_viewport(ratio=1)
    await becomes(tab, BEYOND, [])
    await tab.keyboard.press("Escape")
    opener = tab.get_by_role("button", name="Pages of the console")
    if not is_staff:
        await expect(opener).to_have_count(0)
        return
    rail = tab.get_by_role("navigation", name="Console")
    await expect(rail).to_be_hidden()
    await opener.click()
    await rail.get_by_text("Checkpoints", exact=True).click()
    await rail.get_by_role("link", name="Family tree").click()
    await expect(tab.get_by_role("heading", level=1)).to_have_text("Family tree")
    await expect(rail).to_be_hidden()
    await becomes(tab, BEYOND, [])


async def test_without_scripts_the_menu_and_the_rail_open(open_tab, operator):
    tab = await open_tab("/console/runs/")
    browser = tab.context.browser
    plain = await browser.new_context(java_script_enabled=False, viewport=PHONE)
    await plain.add_cookies(await tab.context.cookies())
    page = await plain.new_page()
    await page.goto(tab.url)
    await page.locator(".person > summary").click()
    await expect(page.get_by_role("link", name="Privacy")).to_be_visible()
    await page.locator(".person > summary").click()
    await page.get_by_role("button", name="Pages of the console").click()
    await page.get_by_role("navigation", name="Console").get_by_text("System", exact=True).click()
    await page.get_by_role("link", name="Health").click()
    await expect(page.get_by_role("heading", name="Health")).to_be_visible()
    await plain.close()


async def test_every_page_of_the_rail_stays_within_a_phone(open_tab, operator):
    tab = await open_tab("/console/")
    urls = await tab.evaluate("[...document.querySelectorAll('#rail a, .person a')].map((one) => one.pathname)")
    await tab.set_viewport_size(PHONE)
    for url in sorted(set(urls)):
        await tab.goto(f"{await origin(tab)}{url}")
        await becomes(tab, BEYOND, [])
    assert len(urls) > 25  # all six entries


async def origin(tab) -> str:
    return await tab.evaluate("location.origin")


@pytest.fixture(autouse=True)
def engine_answers(engine):
    """Pages of engines and health ask it."""


async def test_a_link_that_is_reached_by_keyboard_keeps_the_focus_when_its_place_is_asked_for_anew(open_tab, operator):
    tab = await open_tab("/console/engines/")
    link = tab.locator("#engines a[href$='/judges/']")
    await link.focus()
    await tab.evaluate("""() => new Promise((done) => {
        document.addEventListener("htmx:afterSwap", () => setTimeout(done));
    })""")
    await expect(link).to_be_focused()


async def test_a_link_keeps_the_focus_when_the_answer_for_its_place_brings_another_part_along(open_tab, operator):
    tab = await open_tab("/console/engines/")
    link = tab.locator("#engines a[href$='/judges/']")

    async def bring_along(route) -> None:
        answer = await route.fetch()
        beside = '<h1 id="beside" hx-swap-oob="true">Brought along</h1>'
        await route.fulfill(response=answer, body=(await answer.text()).replace("</body>", f"{beside}</body>"))

    await tab.evaluate("document.querySelector('#repair').insertAdjacentHTML('afterend', '<h1 id=beside></h1>')")
    await link.focus()
    await hold(tab, re.compile("/console/engines/$"), bring_along)
    await expect(tab.locator("#beside")).to_have_text("Brought along")  # which is just before the rest
    await expect(link).to_be_focused()


async def test_of_parts_pushed_under_a_press_the_newest_is_shown(open_tab, operator):
    tab = await open_tab("/connect/")
    await tab.evaluate("""() => document.getElementById("main").insertAdjacentHTML(
        "afterbegin", "<section id=whole><h2 id=part>Old</h2><p>Old</p></section>")""")
    await tab.locator("#whole > p").hover()
    await tab.mouse.down()
    await tab.evaluate("""() => {
        for (const pushed of [
            "<section id=whole hx-swap-oob=true><h2 id=part>New</h2><p>New</p></section>",
            "<h2 id=part hx-swap-oob=true>Newer</h2>",
        ]) htmx.swap(document.body, pushed, { swapStyle: "none" });
    }""")
    await expect(tab.locator("#whole > p")).to_have_text("Old")  # not under the press
    await tab.mouse.up()
    await expect(tab.locator("#whole > p")).to_have_text("New")
    await expect(tab.locator("#part")).to_have_text("Newer")


async def test_a_link_that_is_being_pressed_while_its_place_is_asked_for_anew_is_followed(open_tab, operator):
    tab = await open_tab("/console/engines/")
    await tab.locator("#engines a[href$='/judges/']").hover()
    await tab.mouse.down()
    await tab.evaluate("""() => new Promise((done) => {
        document.addEventListener("htmx:beforeSwap", () => setTimeout(done));
    })""")
    await tab.mouse.up()
    await expect(tab).to_have_url(re.compile("/judges/$"))


@pytest.mark.parametrize("size", [pytest.param({"width": 1280, "height": 800}, marks=pytest.mark.repeats), PHONE])
async def test_a_question_mark_opens_the_glossarys_entry_by_keyboard_and_closes_by_escape(open_tab, operator, size):
    tab = await open_tab("/console/checkpoints/")
    await tab.set_viewport_size(size)
    help_button = tab.get_by_role("button", name="What is “checkpoint”?")
    entry = tab.get_by_text("a set of weights that may be served.")
    await expect(entry).to_be_hidden()
    await help_button.focus()
    await tab.keyboard.press("Enter")
    await expect(entry).to_be_in_viewport(ratio=1)
    await becomes(tab, BEYOND, [])
    await tab.keyboard.press("Escape")
    await expect(entry).to_be_hidden()
    await expect(help_button).to_be_focused()
    await tab.keyboard.press("Enter")
    await tab.get_by_role("link", name="Glossary", exact=True).first.click()
    await expect(tab).to_have_url(re.compile("/help/glossary/#checkpoint$"))
    await expect(tab.locator("#checkpoint")).to_be_in_viewport()
