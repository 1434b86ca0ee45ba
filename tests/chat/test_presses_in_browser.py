"""What is pushed while a person holds a button down, or opens something: the newest is shown, and is whole."""

from __future__ import annotations

from typing import Any

import pytest
from channels.layers import get_channel_layer

from chat.models import Turn, group_of

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

CUT = "Cut off at its length limit."
COUNT = """(id) => document.addEventListener("htmx:oobBeforeSwap", ({ target }) => {
    if (target.id === id) setTimeout(() => { document.body.dataset.news = id }) })"""


async def say_hello(open_tab: Any) -> tuple[Page, Turn]:
    """A chat of one reply, in a browser."""
    tab = await open_tab()
    await tab.get_by_label("Your message").fill("Say hello")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    return tab, await Turn.objects.aget()


async def push(tab: Page, turn: Turn, event: dict[str, Any], place: str) -> None:
    """Tell the chat's pages something, and wait until this one has heard it."""
    await tab.evaluate(COUNT, place)
    await get_channel_layer().group_send(group_of(turn.session_id), event)
    await expect(tab.locator(f"body[data-news='{place}']")).to_have_count(1)


async def push_turn(tab: Page, turn: Turn, **fields: Any) -> None:
    await Turn.objects.filter(pk=turn.pk).aupdate(**fields)
    status = fields.get("status", turn.status)
    await push(tab, turn, {"type": "turn.changed", "turn": str(turn.pk), "status": status}, "turns")


async def push_chip(tab: Page, turn: Turn, **fields: Any) -> None:
    await Turn.objects.filter(pk=turn.pk).aupdate(**fields)
    await push(tab, turn, {"type": "chips.changed", "turns": [str(turn.pk)]}, f"chip-{turn.pk}")


async def test_a_chip_that_comes_for_a_turn_that_waits_for_the_end_of_a_press_is_shown(open_tab, engine):
    tab, turn = await say_hello(open_tab)
    await tab.get_by_role("button", name="Teach", exact=True).focus()
    await tab.keyboard.down("Space")
    await push_turn(tab, turn, finish_reason="length")
    await push_chip(tab, turn, learns=False)
    await expect(tab.get_by_text(CUT)).to_have_count(0)  # not under the press
    await tab.keyboard.up("Space")
    await expect(tab.get_by_text(CUT, exact=True)).to_be_visible()
    await expect(tab.locator(".turn .chip")).to_have_text("off the record")


async def test_a_turn_that_comes_after_a_chip_that_waits_for_the_end_of_a_press_is_shown_with_its_own(open_tab, engine):
    tab, turn = await say_hello(open_tab)
    await tab.locator(".turn .chip").hover()
    await tab.mouse.down()
    await push_chip(tab, turn, learns=False)
    await push_turn(tab, turn, learns=True, finish_reason="length")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await tab.evaluate("""() => addEventListener("pointerup", () => setTimeout(() => setTimeout(
        () => { document.body.dataset.over = "" })))""")
    await tab.mouse.up()
    await expect(tab.locator("body[data-over]")).to_have_count(1)
    await expect(tab.get_by_text(CUT, exact=True)).to_be_visible()
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")


async def test_words_that_come_for_a_turn_that_waits_for_the_end_of_a_press_are_shown(open_tab, engine):
    tab, turn = await say_hello(open_tab)
    said = f"#said-{turn.pk}"
    await tab.get_by_role("button", name="Teach", exact=True).focus()
    await tab.keyboard.down("Space")
    await push_turn(tab, turn, finish_reason="length")
    grown = f"<div id='said-{turn.pk}' hx-swap-oob='innerHTML'>It goes on.</div>"  # as of a reply that is continued
    await tab.evaluate("(grown) => htmx.swap(document.body, grown, { swapStyle: 'none' })", grown)
    await expect(tab.locator(said)).not_to_have_text("It goes on.")
    await tab.keyboard.up("Space")
    await expect(tab.get_by_text(CUT, exact=True)).to_be_visible()
    await expect(tab.locator(said)).to_have_text("It goes on.")


async def test_what_waits_for_a_press_that_turns_into_a_drag_is_shown_at_its_end(open_tab, engine):
    engine.says("See [the list](https://example.org/list).")
    tab, turn = await say_hello(open_tab)
    link = tab.get_by_role("link", name="the list")
    await link.hover()
    place = await link.bounding_box()
    await tab.mouse.down()
    await push_turn(tab, turn, finish_reason="length")
    await expect(tab.get_by_text(CUT)).to_have_count(0)
    await tab.mouse.move(place["x"] + 60, place["y"] + 60, steps=8)
    await tab.mouse.up()  # no click, and no end of a pointer that began to drag
    await expect(tab.get_by_text(CUT, exact=True)).to_be_visible()


async def test_what_waits_for_a_key_that_is_let_go_of_in_another_window_is_shown(open_tab, engine):
    tab, turn = await say_hello(open_tab)
    await tab.get_by_role("button", name="Teach", exact=True).focus()
    await tab.keyboard.down("Space")
    await push_turn(tab, turn, finish_reason="length")
    await expect(tab.get_by_text(CUT)).to_have_count(0)
    await tab.evaluate("document.activeElement.blur(), window.dispatchEvent(new Event('blur'))")
    await expect(tab.get_by_text(CUT, exact=True)).to_be_visible()


async def test_a_chip_that_a_click_closes_stays_closed_though_it_was_drawn_anew_under_the_press(open_tab, engine):
    tab, turn = await say_hello(open_tab)
    chip = tab.locator(".turn .chip")
    await chip.click()
    await expect(tab.locator(f"#chip-{turn.pk}[open]")).to_have_count(1)
    await chip.hover()
    await tab.mouse.down()
    await push_chip(tab, turn, learns=False)
    await tab.mouse.up()
    await expect(chip).to_have_text("off the record")
    await expect(tab.locator(f"#chip-{turn.pk}[open]")).to_have_count(0)


async def test_a_file_that_is_opened_just_as_its_turn_is_drawn_again_shows_what_it_holds(open_tab, engine):
    tab = await open_tab()
    file = {"name": "people.csv", "mimeType": "text/csv", "buffer": b"name,age\nana,7\n"}
    await tab.get_by_label("Add text files").set_input_files([file])
    await tab.get_by_label("Your message").fill("Who is oldest?")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
    await tab.evaluate("""() => {
        const turn = document.querySelector("article.turn");
        const again = turn.cloneNode(true);
        turn.querySelector(".file").open = true;
        takePlace(turn, again);
    }""")
    await expect(tab.locator(".said .file pre")).to_contain_text("ana,7")
