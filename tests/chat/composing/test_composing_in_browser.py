"""Inside one chat, in a real browser: continue, set, compare, insert a prompt, add a file; on a desk and on a phone."""

from __future__ import annotations

import os

import pytest

from chat.composing.prompts import SavedPrompt
from chat.models import Turn
from checkpoints.models import Checkpoint

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import keeps_still
from tests.chat.page.acts import say

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

SIZES = pytest.mark.parametrize(
    "size",
    [{"width": 1280, "height": 800}, pytest.param({"width": 390, "height": 844}, marks=pytest.mark.repeats)],
    ids=["desk", "phone"],
)


async def shoot(tab: Page, name: str, size: dict[str, int]) -> None:
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=f"{folder}/{name}-{size['width']}.png")


@SIZES
async def test_a_cut_reply_is_continued_in_its_place(open_tab, engine, session, size):
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    other = await open_tab(f"/chats/{session.pk}/")
    engine.says("One, two", finish_reason="length")
    await say(tab, "Count to four")
    button = tab.get_by_role("button", name="Continue")
    await expect(button).to_be_visible()
    await shoot(tab, "cut", size)
    engine.says(", three, four.")
    engine.hold(after=3)
    await button.click()
    await expect(tab.locator(".turn.answering .prose")).to_contain_text("One, two, ")
    await expect(tab.get_by_role("button", name="Stop")).to_be_visible()
    await expect(other.locator(".turn.answering .prose")).to_contain_text("One, two, ")
    engine.release()
    for each in (tab, other):
        await expect(each.locator(".turn .prose")).to_have_text("One, two, three, four.")
        await expect(each.get_by_role("button", name="Continue")).to_have_count(0)
        await expect(each.locator(".turn")).to_have_count(1)
        await expect(each.get_by_role("button", name="Good reply")).to_be_visible()
    await keeps_still(tab)


@SIZES
async def test_settings_are_reached_in_the_head_and_shown_there(open_tab, engine, session, size):
    await Checkpoint.objects.acreate(number=7, status="retired", adapter="talkback-7", path="checkpoints/7")
    engine.loaded["talkback-7"] = "anywhere"
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    await tab.locator(".terms-menu summary").click()
    await expect(tab.get_by_label("Instructions")).to_be_visible()
    await tab.get_by_label("Instructions").fill("Answer like a pirate.")
    await tab.get_by_label("Temperature").fill("0.3")
    await tab.get_by_label("Answered by").select_option("7")
    await shoot(tab, "settings", size)
    await keeps_still(tab)
    await tab.get_by_role("button", name="Save").click()
    await expect(tab.locator(".set")).to_contain_text("answered by talkback@7")
    await say(tab, "Hello")
    await expect(tab.locator(".turn .badge")).to_have_text("talkback@7")
    turn = await Turn.objects.aget()
    assert turn.messages[0] == {"role": "system", "content": "Answer like a pirate."}
    assert turn.sampling["temperature"] == 0.3
    await expect(tab.locator(".said")).to_have_count(1)  # the instructions are no message of the person
    await shoot(tab, "set", size)
    await keeps_still(tab)


@SIZES
async def test_a_reply_is_compared_and_the_better_one_kept(open_tab, engine, session, size):
    await Checkpoint.objects.acreate(number=7, status="retired", adapter="talkback-7", path="checkpoints/7")
    engine.loaded["talkback-7"] = "anywhere"
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    engine.says("An arc of light.")
    await say(tab, "What is a rainbow?")
    await expect(tab.locator(".turn .prose")).to_have_text("An arc of light.")
    await tab.locator(".compare summary").click()
    await expect(tab.get_by_label("Compare with", exact=True)).to_be_visible()
    await shoot(tab, "compare", size)
    await keeps_still(tab)
    engine.says("A bow of seven colours that stands in the sky.")
    await tab.get_by_role("button", name="Compare", exact=True).click()
    await expect(tab.get_by_role("heading", name="Side by side")).to_be_visible()
    keep = tab.get_by_role("button", name="Keep the reply by talkback@7")
    await expect(keep).to_be_visible()
    await shoot(tab, "beside", size)
    await keeps_still(tab)
    await keep.click()
    await expect(tab.locator(".turn .prose")).to_have_text("A bow of seven colours that stands in the sky.")
    await expect(tab.locator(".turn .switch")).to_contain_text("2/2")
    assert (await Turn.objects.aget(position=0)).marks == ["regenerated"]


@SIZES
async def test_a_prompt_is_inserted_by_keyboard_and_its_variables_are_asked_for(open_tab, engine, session, ana, size):
    for name, text in (
        ("Summary", "Sum up in one sentence:"),
        ("Translate", "Translate into {{language}}: {{some words}}"),
        ("Tidy", "Tidy up this text:"),
    ):
        await SavedPrompt.objects.acreate(user=ana, name=name, text=text)
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    message = tab.get_by_label("Your message")
    await message.focus()
    await tab.keyboard.type("/")
    await expect(tab.get_by_role("option")).to_have_count(3)
    await shoot(tab, "prompts", size)
    await keeps_still(tab)
    await tab.keyboard.type("t")
    await expect(tab.get_by_role("option", selected=True)).to_contain_text("Tidy")
    await tab.keyboard.press("ArrowDown")
    await expect(tab.get_by_role("option", selected=True)).to_contain_text("Translate")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_label("language")).to_be_focused()
    await shoot(tab, "variables", size)
    await tab.keyboard.type("French")
    await tab.keyboard.press("Tab")
    await tab.keyboard.type("$& good night")
    await tab.keyboard.press("Enter")
    await expect(message).to_have_value("Translate into French: $& good night")
    await expect(message).to_be_focused()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".said .words")).to_have_text("Translate into French: $& good night")
    # Escape closes it and leaves what was typed; the button opens it as well
    await tab.keyboard.type("/su")
    await expect(tab.get_by_role("option")).to_have_count(1)
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#prompts")).to_be_hidden()
    await expect(message).to_have_value("/su")
    await message.fill("Here: ")
    await tab.get_by_role("button", name="Prompts").click()
    await tab.get_by_role("option", name="Summary").click()
    await expect(message).to_have_value("Here: Sum up in one sentence:")


@SIZES
async def test_prompts_have_a_page_that_is_light_and_fits(open_tab, ana, size):
    tab = await open_tab("/prompts/")
    await tab.set_viewport_size(size)
    await shoot(tab, "no-prompts", size)
    await tab.get_by_label("Name").fill("Translate")
    await tab.get_by_label("Text").fill("Translate into {{language}}: {{text}}")
    await tab.get_by_role("button", name="Save").click()
    await expect(tab.get_by_role("heading", name="Translate")).to_be_visible()
    await keeps_still(tab)
    await shoot(tab, "prompts-page", size)
    await tab.get_by_role("button", name="Remove “Translate”").click()
    await expect(tab.get_by_text("You have saved no prompt yet.")).to_be_visible()


DROP = """([where, kind]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["name,age\\nana,7\\n"], "people.csv", { type: "text/csv" }));
    const about = kind === "paste" ? { clipboardData: transfer } : { dataTransfer: transfer };
    const Kind = kind === "paste" ? ClipboardEvent : DragEvent;
    document.querySelector(where).dispatchEvent(new Kind(kind, { bubbles: true, cancelable: true, ...about }));
}"""


@SIZES
@pytest.mark.parametrize("how", ["button", "drop", "paste"])
async def test_a_file_goes_with_a_message_and_folds_up(open_tab, engine, session, size, how):
    tab = await open_tab(f"/chats/{session.pk}/")
    await tab.set_viewport_size(size)
    if how == "button":
        about = {"name": "people.csv", "mimeType": "text/csv", "buffer": b"name,age\nana,7\n"}
        await tab.get_by_label("Add text files").set_input_files([about])
    else:
        await tab.evaluate(DROP, ["#composer textarea" if how == "paste" else ".scroll", how])
    await expect(tab.locator("#attached")).to_contain_text("people.csv")
    await keeps_still(tab)
    await shoot(tab, f"file-{how}", size)
    await say(tab, "Who is oldest?")
    fold = tab.locator(".said .file")
    await expect(fold).to_contain_text("people.csv 2 lines")
    await expect(tab.locator("#attached")).to_be_hidden()
    await fold.locator("summary").click()
    await expect(fold.locator("pre")).to_contain_text("ana,7")
    await keeps_still(tab)
    await shoot(tab, f"fold-{how}", size)
    await say(tab, "Thank you")
    await expect(tab.locator(".turn")).to_have_count(2)
    last = await Turn.objects.alast()
    assert last.messages[0]["content"].endswith("File: people.csv\n```csv\nname,age\nana,7\n```")
    assert last.messages[-1]["content"] == "Thank you"


async def test_a_file_chosen_twice_goes_once_and_another_of_its_name_goes_too(open_tab, engine, session, tmp_path):
    tab = await open_tab(f"/chats/{session.pk}/")
    for folder, words in (("one", "ana"), ("two", "ben and cleo")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "people.txt").write_text(words)
    for folder, said in (("one", "added"), ("one", "attached already"), ("two", "added")):
        await tab.get_by_label("Add text files").set_input_files(tmp_path / folder / "people.txt")
        await expect(tab.locator("#announcer")).to_have_text(f"people.txt is {said}.")
    await expect(tab.locator("#attached li")).to_have_count(2)
    await say(tab, "Who is there?")
    await expect(tab.locator(".said .file")).to_have_count(2)


async def test_a_picture_is_refused_in_plain_words_and_the_message_stays(open_tab, engine, session):
    tab = await open_tab(f"/chats/{session.pk}/")
    about = [{"name": "cat.png", "mimeType": "image/png", "buffer": b"\x89PNG"}]
    await tab.get_by_label("Add text files").set_input_files(about)
    await say(tab, "What is this?")
    await expect(tab.locator("#complaint")).to_have_text(
        "cat.png: this model cannot see pictures. Say in words what is on it."
    )
    await expect(tab.get_by_label("Your message")).to_have_value("What is this?")
    await tab.get_by_role("button", name="Take off cat.png").click()
    await expect(tab.locator("#attached")).to_be_hidden()
    await tab.get_by_label("Your message").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".turn")).to_have_count(1)
    await expect(tab.locator(".turn .chip")).to_have_text("not taught yet")
