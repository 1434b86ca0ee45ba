"""Connecting as a newcomer does it: from the chat to a key, a block, a first request, and the light."""

from __future__ import annotations

import json

import httpx
import pytest

from chat.api_keys import ApiKey
from tests.chat.conftest import user

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


async def made(tab: Page, name: str) -> str:
    """Make a key with the keyboard alone. Its secret."""
    await tab.get_by_label("Name").focus()
    await tab.keyboard.type(name)
    await tab.keyboard.press("Enter")
    return await tab.locator("#secret").inner_text()


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def test_from_the_chat_to_a_green_light(open_tab, site):
    tab = await open_tab("/")
    await tab.get_by_role("link", name="connect OpenClaw or any OpenAI client").click()
    secret = await made(tab, "OpenClaw")

    # the block is there, whole, with the key in it, and is copied by a button
    await tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await tab.get_by_role("button", name="Copy the block for OpenClaw").click()
    await expect(tab.get_by_role("button", name="Copy the block for OpenClaw")).to_have_text("Copied")
    provider = json.loads(await tab.evaluate("navigator.clipboard.readText()"))["models"]["providers"]["talkback"]
    assert provider["apiKey"] == secret
    assert provider["baseUrl"] == f"{site}/v1"

    # a test teaches nothing, and leaves the light as it is
    await tab.get_by_role("button", name="Send a test request").click()
    await expect(tab.locator("#trial")).to_contain_text("It works: talkback@0 said its first token after")
    await expect(tab.locator("#light")).to_contain_text("Nothing has come through this key yet.")

    # the first request: amber, and why; what comes back to the reply: green
    said = [user("Say hello.")]
    async with httpx.AsyncClient(base_url=site, headers=bearer(secret), timeout=60) as client:
        answer = await client.post("/v1/chat/completions", json={"model": "talkback", "messages": said})
        await expect(tab.locator("#light.amber")).to_contain_text("nothing has come back to the reply yet")
        said += [answer.json()["choices"][0]["message"], user("No, shorter.")]
        await client.post("/v1/chat/completions", json={"model": "talkback", "messages": said})
        await expect(tab.locator("#light.green")).to_contain_text("Connected: 1 turn can teach.")

    # the page that is loaded again is the key's own, without its secret
    await tab.reload()
    assert tab.url.endswith(f"/connect/{(await ApiKey.objects.aget()).pk}/")
    await expect(tab.locator("#secret")).to_have_count(0)
    assert secret not in await tab.content()
    await expect(tab.locator("#light.green")).to_be_visible()


async def test_a_key_is_ended_by_clicking(open_tab, site):
    tab = await open_tab("/connect/")
    secret = await made(tab, "phone")
    await tab.get_by_role("link", name="all keys").click()
    await tab.get_by_text("Revoke …").click()
    await tab.get_by_role("button", name="Revoke “phone”").click()
    await expect(tab.get_by_role("status")).to_contain_text("“phone” is revoked")
    async with httpx.AsyncClient(base_url=site, headers=bearer(secret), timeout=60) as client:
        assert (await client.get("/v1/models")).status_code == 401


async def test_one_block_is_open_at_a_time_and_a_phone_shows_all_of_it(open_tab):
    tab = await open_tab("/connect/")
    await tab.set_viewport_size({"width": 390, "height": 844})
    await fits(tab)
    await made(tab, "phone")
    await fits(tab)
    await tab.locator("summary", has_text="Python").press("Enter")
    await expect(tab.locator("#block-python")).to_be_visible()
    await expect(tab.locator("#block-openclaw")).to_be_hidden()
    await fits(tab)
    await tab.get_by_role("link", name="all keys").click()
    await expect(tab.get_by_role("heading", name="Keys")).to_be_visible()
    await fits(tab)
