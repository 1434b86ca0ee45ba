"""The page of the API in a real browser: it loads from here alone, under our own policy, and tries requests."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


async def test_every_route_stands_on_the_page_and_can_be_tried(open_tab, site, key, engine):
    engine.says("Hello, captain.")
    tab = await open_tab("/v1/docs")
    await expect(tab.get_by_text("One reply, plain or streaming")).to_be_visible()
    loaded = await tab.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert all(name.startswith(site) or name.startswith("data:") for name in loaded), loaded

    await tab.get_by_role("button", name="Authorize").first.click()
    await tab.get_by_role("textbox").fill(key.secret)
    await tab.locator(".auth-btn-wrapper").get_by_role("button", name="Apply credentials").click()
    await tab.locator(".btn-done").first.click()
    await tab.get_by_text("One reply, plain or streaming").click()
    await tab.get_by_role("button", name="Try it out").click()
    await tab.get_by_role("button", name="Execute").click()
    await expect(tab.get_by_text("Hello, captain.").first).to_be_visible()
