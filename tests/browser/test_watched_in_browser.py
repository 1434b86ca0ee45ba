"""What every test with a browser is failed by: a part of a page that did not come, and a request to another host."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Error

from tests.chromium import be_patient, watch

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

ADD = """([name, attributes]) => new Promise((done) => {
    const part = Object.assign(document.createElement(name), attributes);
    part.onload = part.onerror = done;
    document.head.append(part);
})"""


async def test_what_did_not_come_and_what_was_asked_elsewhere_is_noted(site, chromium, playwright):
    browser = await playwright.chromium.connect(chromium.address)
    context = await browser.new_context()
    await be_patient(context)
    noted: list[str] = []
    watch(context, {urlsplit(site).netloc}, noted)
    tab = await context.new_page()
    await tab.goto(f"{site}/login/")
    assert noted == []
    await tab.evaluate(ADD, ["script", {"src": "/static/none.js"}])
    await tab.evaluate(ADD, ["img", {"src": "/static/none.png"}])
    missing = [f"404: {site}/static/none.{kind}" for kind in ("js", "png")]
    assert noted == missing
    elsewhere = "http://127.0.0.1:1/"  # a port that no browser asks, and that is another host's all the same
    with pytest.raises(Error):
        await tab.goto(elsewhere)
    await browser.close()
    assert noted == [*missing, f"asked another host: {elsewhere}"]
