"""Pictures in a chat, in a real browser: pasted, dropped or chosen, seen before they are sent, taken off again."""

from __future__ import annotations

import base64
import os

import pytest

from chat.models import Turn

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import fits
from tests.chat.page.acts import say
from tests.chat.pictures.samples import data_url, png

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

SIZES = pytest.mark.parametrize(
    "size",
    [pytest.param({"width": 1280, "height": 800}, marks=pytest.mark.repeats), {"width": 390, "height": 844}],
    ids=["desk", "phone"],
)

BRING = """([where, kind, data]) => {
    const transfer = new DataTransfer();
    const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
    transfer.items.add(new File([bytes], "image.png", { type: "image/png" }));
    const about = kind === "paste" ? { clipboardData: transfer } : { dataTransfer: transfer };
    const Kind = kind === "paste" ? ClipboardEvent : DragEvent;
    document.querySelector(where).dispatchEvent(new Kind(kind, { bubbles: true, cancelable: true, ...about }));
}"""


async def shoot(tab: Page, name: str, size: dict[str, int]) -> None:
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=f"{folder}/{name}-{size['width']}.png")


@SIZES
@pytest.mark.parametrize("how", ["button", "drop", "paste"])
async def test_a_picture_is_seen_before_it_is_sent_and_after(open_tab, answers, session, size, how):
    picture = png(600, 300)
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    if how == "button":
        about = {"name": "image.png", "mimeType": "image/png", "buffer": picture}
        await tab.get_by_label("Add pictures or text files").set_input_files([about])
    else:
        where = "#composer textarea" if how == "paste" else ".scroll"
        await tab.evaluate(BRING, [where, how, base64.b64encode(picture).decode()])
    look = tab.locator("#attached img")
    await expect(look).to_have_js_property("naturalWidth", 600)
    await tab.get_by_role("button", name="Take off image.png").click()
    await expect(look).to_have_count(0)
    await tab.evaluate(BRING, ["#composer textarea", "paste", base64.b64encode(picture).decode()])
    await expect(look).to_have_js_property("naturalWidth", 600)
    await shoot(tab, f"picture-before-{how}", size)
    await say(tab, "What is it?")
    shown = tab.get_by_role("img", name="Picture 1, 600 by 300 pixels")
    await expect(shown).to_have_js_property("naturalWidth", 600)
    await expect(tab.locator("#attached")).to_be_hidden()
    await expect(tab.locator(".turn .chip")).to_have_text("holds a picture")
    await fits(tab)
    await shoot(tab, f"picture-{how}", size)
    assert answers.calls[0]["image_data"] == [data_url(picture)]
    assert (await Turn.objects.aget()).pictures == 1
