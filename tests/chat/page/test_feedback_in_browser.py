"""What a person says of a reply, in a real browser: pressed while the page is drawn anew, it counts."""

from __future__ import annotations

import asyncio

import pytest

from chat.models import Turn
from feedback.models import Feedback

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import hold
from tests.chat.page.acts import draw_again, say, stands

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]


async def test_thumb_and_corrections(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.locator(".turn .chip")).to_have_text("being judged")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")

    await expect(tab.locator(".correction")).to_be_hidden()
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await expect(tab.get_by_label("What should it do next time?")).to_be_focused()
    await tab.get_by_text("It should have said …").click()
    await expect(tab.get_by_label("What should it have said?")).to_have_value("I see.")
    await expect(tab.get_by_label("What should it do next time?")).to_be_hidden()
    await tab.get_by_text("Next time, do …").click()
    await tab.get_by_label("What should it do next time?").fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".opener.teach")).to_have_attribute("data-given", "")
    said = await Feedback.objects.standing().aget()
    assert (said.kind, said.text) == ("guidance", "Be brief.")


async def test_a_bad_reply_has_reasons_by_mouse_and_by_keyboard(open_tab, engine, session):
    other, tab = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await expect(tab.locator(".reasons label")).to_have_count(0)
    await tab.get_by_role("button", name="Bad reply").focus()
    await tab.keyboard.press("Space")
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await expect(tab.get_by_label("What should it do next time?")).to_be_focused()

    # What it opened, then the reasons: each is reached with Tab and chosen with Space.
    first = tab.get_by_role("checkbox", name="wrong")
    for _ in range(4):
        await tab.keyboard.press("Tab")
        if await first.evaluate("chip => chip === document.activeElement"):
            break
    await expect(first).to_be_focused()
    await tab.keyboard.press("Space")
    await expect(other.get_by_role("checkbox", name="wrong")).to_be_checked()
    await expect(first).to_be_focused()
    await tab.keyboard.press("Tab")
    await tab.keyboard.press("Space")
    await expect(other.get_by_role("checkbox", name="too long")).to_be_checked()
    assert [said.tags for said in await stands("thumb")] == [["wrong", "too long"]]

    await other.locator(".reasons label").get_by_text("wrong").click()
    await expect(other.get_by_role("checkbox", name="wrong")).not_to_be_checked()
    await other.get_by_role("button", name="Undo").click()
    await expect(other.locator(".reasons label")).to_have_count(0)
    await expect(other.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "false")
    await expect(tab.locator(".reasons label")).to_have_count(0)
    assert await stands("thumb") == []


async def test_the_answer_to_a_message_takes_no_focus_from_what_its_person_is_at(open_tab, engine, session):
    tab = await open_tab(f"/chats/{session.pk}/")
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch()
        await arrives.wait()
        await route.fulfill(response=answer)

    await hold(tab, "**/say/", late, first=1)
    async with tab.expect_event("requestfinished", lambda request: request.url.endswith("/say/")):
        await say(tab, "Say hello")
        await tab.get_by_role("button", name="Bad reply").focus()
        arrives.set()
    await expect(tab.get_by_label("Your message")).to_have_value("")  # it was heard
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_focused()


async def test_a_reason_that_is_being_pressed_when_news_of_it_arrives_is_chosen(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(other.locator(".reasons label")).to_have_count(7)
    await other.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        const { target, fragment } = event.detail;
        const isNews = target.matches(".reasons") && fragment.querySelector(":checked");
        if (isNews) setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await other.locator(".reasons label").get_by_text("wrong").hover()
    await other.mouse.down()
    await tab.locator(".reasons label").get_by_text("too long").click()
    await expect(other.locator("body[data-news]")).to_have_count(1)
    await other.mouse.up()
    await expect(other.get_by_role("checkbox", name="wrong")).to_be_checked()
    await expect(tab.get_by_role("checkbox", name="too long")).to_be_checked()


async def test_a_thumb_that_is_being_pressed_when_news_of_it_arrives_is_given(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await other.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        const { target, fragment } = event.detail;
        const isNews = target.matches(".thumbs") && fragment.querySelector("[aria-pressed=true]");
        if (isNews) setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await other.get_by_role("button", name="Bad reply").focus()
    await other.keyboard.down("Space")
    await tab.get_by_role("button", name="Good reply").click()
    await expect(other.locator("body[data-news]")).to_have_count(1)
    await other.keyboard.up("Space")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(other.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    assert [said.value for said in await stands("thumb")] == [-1]


async def test_a_thumb_that_is_being_pressed_while_its_turn_is_drawn_again_is_given(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await expect(tab.get_by_role("button", name="Bad reply")).to_be_visible()
    await tab.evaluate("""() => document.addEventListener("htmx:oobBeforeSwap", (event) => {
        if (event.detail.target.id === "turns") setTimeout(() => { document.body.dataset.news = "come" }) })""")
    await tab.get_by_role("button", name="Bad reply").focus()
    await tab.keyboard.down("Space")
    await draw_again(session)
    await expect(tab.locator("body[data-news]")).to_have_count(1)
    await expect(tab.get_by_text("Cut off at its length limit.")).to_have_count(0)  # not under the press
    await tab.keyboard.up("Space")
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    assert [said.value for said in await stands("thumb")] == [-1]


async def test_that_a_lesson_was_saved_is_still_said_when_its_turn_is_drawn_again(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Teach", exact=True).click()
    await tab.get_by_label("What should it do next time?").fill("Be brief.")
    await tab.keyboard.press("Enter")
    await expect(tab.locator(".saved")).to_have_text("Saved")
    await draw_again(session)
    await expect(tab.get_by_text("Cut off at its length limit.", exact=True)).to_be_visible()
    await expect(tab.locator(".saved")).to_have_text("Saved")


async def test_reasons_chosen_quickly_are_all_kept(open_tab, engine, session):
    tab, other = await open_tab(), await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await tab.evaluate("document.querySelectorAll('.reasons label').forEach((label) => label.click())")
    await expect(other.locator(".reasons input:checked")).to_have_count(7)
    await expect(tab.locator(".reasons input:checked")).to_have_count(7)
    assert [len(said.tags) for said in await stands("thumb")] == [7]
    await tab.get_by_role("button", name="Good reply").click()
    await expect(tab.locator(".reasons legend")).to_have_text("What was good?")
    await expect(tab.locator(".reasons input:checked")).to_have_count(0)
    assert [(said.value, said.tags) for said in await stands("thumb")] == [(1, [])]


async def test_a_reason_that_was_not_taken_does_not_look_as_if_it_were(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").click()
    await expect(tab.locator(".reasons label")).to_have_count(7)
    await Turn.objects.aupdate(status=Turn.Status.ANSWERING)  # tried again elsewhere: nothing can be said of it now
    await tab.locator(".reasons label").get_by_text("wrong").click()
    await expect(tab.locator(".reasons input:checked")).to_have_count(0)
    assert [said.tags for said in await stands("thumb")] == [[]]


async def test_a_double_click_on_a_thumb_leaves_it_pressed(open_tab, engine, session):
    tab = await open_tab()
    await say(tab, "Say hello")
    await tab.get_by_role("button", name="Bad reply").dblclick()
    await expect(tab.get_by_role("button", name="Bad reply")).to_have_attribute("aria-pressed", "true")
    await expect(tab.locator(".turn .chip")).to_have_text("being judged")
    assert (await Feedback.objects.standing().aget()).value == -1
