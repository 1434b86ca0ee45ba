"""In a real browser, with the page's own scripts at work, no text runs, and nothing is refused for want of care."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.page_paths import addresses
from benchmarks.seeding.whole import seed
from tests.chat.conftest import site, small_and_quick
from tests.webapp.payloads import rows, texts
from tests.webapp.payloads.test_pages import AMOUNTS

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")

__all__ = ["site", "small_and_quick"]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

PAGES = (
    *("chat:session", "chat:search ?q=the", "chat:prompts", "bin:home", "privacy:home", "people:list"),
    *("console:board", "console:turns", "console:turn", "console:hint", "console:reward", "console:run"),
    *("console:overlay ?{runs}", "console:comparison", "console:tools", "worlds:group", "worlds:episode"),
)
"""Those with most text of people, models and tools, and those whose scripts write it."""

WATCH = """
    window.refused = [];
    window.pushed = 0;
    document.addEventListener("securitypolicyviolation", (event) => refused.push(event.violatedDirective));
    document.addEventListener("htmx:wsAfterMessage", () => { pushed += 1; });
"""

PUSHED = """() => new Promise((done) => pushed ? done()
    : document.addEventListener("htmx:wsAfterMessage", () => done(), { once: true }))"""

GOT_OUT = """(name) => [...document.querySelectorAll("*")]
    .filter((one) => one.localName === name || one.hasAttribute("zz-attribute") || one.hasAttribute("srcdoc")
        || [...one.attributes].some((held) => held.name.startsWith("on"))
        || ["a", "form", "iframe", "img", "area"].includes(one.localName)
            && [one.href, one.action, one.src].some((to) => /^(javascript|vbscript|data:text)/i.test(String(to ?? ""))))
    .map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture
def ana(transactional_db, settings, tmp_path):
    """The administrator of an installation in use, in which every text is hostile."""
    settings.DATA_DIR = tmp_path
    person = seed(AMOUNTS).administrator
    person.paths = addresses(person)
    rows.spoil(texts.STARTS[0])
    person.refresh_from_db()
    return person


@pytest.mark.timeout(180)
async def test_no_text_of_any_field_runs_in_a_browser(open_tab, site, engine, ana):
    tab = await open_tab("/favicon.ico")
    await tab.add_init_script(WATCH)
    for name in PAGES:
        answer = await tab.goto(site + ana.paths[name])
        assert answer.status == 200, name
        if name == "chat:session":  # it draws the newest turn again, through its socket
            await asyncio.wait_for(tab.evaluate(PUSHED), 30)
        assert texts.MARK in await tab.inner_text("body"), name
        told = await tab.evaluate("() => [window.hit, refused]")
        assert (name, told, await tab.evaluate(GOT_OUT, texts.ELEMENT)) == (name, [None, []], [])
