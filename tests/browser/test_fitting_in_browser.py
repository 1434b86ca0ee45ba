"""How tests wait for what a page comes to, on a page of a few words."""

from __future__ import annotations

import pytest
import pytest_asyncio

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page

from tests.browser import fitting
from tests.browser.fitting import becomes

pytestmark = pytest.mark.browser

WORDS = "one => one.textContent"
LATER = "(work) => requestAnimationFrame(() => requestAnimationFrame(() => (0, eval)(work)))"


@pytest_asyncio.fixture(loop_scope="session")
async def tab(chromium, playwright):
    browser = await playwright.chromium.connect(chromium.address)
    tab = await browser.new_page()
    await tab.set_content("<p>before</p>")
    yield tab
    await browser.close()


async def test_what_a_page_and_an_element_become_is_waited_for(tab: Page):
    await tab.evaluate(LATER, "document.querySelector('p').textContent = 'after'")
    await becomes(tab.locator("p"), WORDS, "after")
    await tab.evaluate(LATER, "document.body.append('!')")
    await becomes(tab, "mark => [document.body.textContent, mark]", ["after!", 1], about=1)


async def test_an_element_that_is_taken_away_is_looked_for_anew(tab: Page):
    await tab.evaluate(LATER, "document.body.innerHTML = '<p>another</p>'")
    await becomes(tab.locator("p"), WORDS, "another")


async def test_what_stays_as_it_is_is_said(tab: Page, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fitting, "PATIENCE_MS", 200)
    with pytest.raises(AssertionError, match="it stays \"before\", and is wanted as 'after'"):
        await becomes(tab.locator("p"), WORDS, "after")
    with pytest.raises(AssertionError, match="it stays 'before', and is wanted as 'after'"):
        await becomes(tab, "() => document.body.textContent", "after")
