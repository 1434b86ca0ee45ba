"""The page of the API in a real browser: it loads from here alone, and needs no script."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


async def test_every_route_stands_on_the_page_and_leads_to_its_command(open_tab, site):
    tab = await open_tab("/v1/docs")
    loaded = await tab.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert loaded
    assert all(name.startswith(site) or name.startswith("data:") for name in loaded), loaded

    await tab.get_by_role("link", name="POST /v1/chat/completions").click()
    one = tab.get_by_role("article", name="One reply, plain or streaming")
    await expect(one).to_be_in_viewport()
    await expect(one.locator("pre")).to_contain_text(f'curl -X POST "{site}/v1/chat/completions"')
