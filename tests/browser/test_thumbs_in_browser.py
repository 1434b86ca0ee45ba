"""Thumbs, reasons and corrections, in a real browser: the last that was said stands, and it is saved."""

from __future__ import annotations

import asyncio

import pytest

from chat.models import Session, Turn
from feedback.models import Feedback
from judge.models import Hint

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import hold
from tests.browser.taught_chat import article, stays

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.mark.parametrize("held", ["what is sent", "the answer"])
async def test_the_last_thumb_that_was_pressed_stands_however_late_the_one_before_it_is(open_tab, chat, held):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 0)
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch() if held == "the answer" else None
        await arrives.wait()
        await route.fulfill(response=answer) if answer else await route.continue_()

    await hold(tab, "**/feedback/", late, first=1)
    up, down = (turn.get_by_role("button", name=name) for name in ("Good reply", "Bad reply"))
    await up.click()
    if held == "the answer":
        await expect(up).to_have_attribute("aria-pressed", "true")  # pushed: the form still waits for its answer
    await down.click()
    arrives.set()
    await expect(down).to_have_attribute("aria-pressed", "true")
    await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
    assert await thumbs_of(chat, 0) == [-1]


async def test_a_reason_that_arrives_after_another_thumb_does_not_turn_it(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 0)
    arrives = asyncio.Event()

    async def late(route) -> None:
        await arrives.wait()
        await route.continue_()

    await turn.get_by_role("button", name="Good reply").click()
    await expect(turn.locator(".reasons legend")).to_have_text("What was good?")
    await hold(tab, "**/feedback/", late, first=1)
    await turn.locator(".reasons label").nth(1).click()
    down = turn.get_by_role("button", name="Bad reply")
    async with tab.expect_response(lambda answer: "tags=" in (answer.request.post_data or "")):
        await down.click()
        await expect(turn.locator(".reasons legend")).to_have_text("What was wrong?")
        arrives.set()
    await expect(down).to_have_attribute("aria-pressed", "true")
    assert await thumbs_of(chat, 0) == [-1]


async def test_an_answer_to_a_thumb_that_comes_after_the_bar_was_drawn_anew_finds_its_places(open_tab, chat):
    """Its own button was pushed anew, and then its form: what the page complains of fails the test."""
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 18)
    arrives = asyncio.Event()

    async def late(route) -> None:
        answer = await route.fetch()
        await arrives.wait()
        await route.fulfill(response=answer)

    await hold(tab, "**/feedback/", late, first=1)
    down = turn.get_by_role("button", name="Bad reply")
    async with tab.expect_event("requestfinished", lambda request: "kind=thumb" in (request.post_data or "")):
        await down.click()
        await expect(down).to_have_attribute("aria-pressed", "true")  # pushed
        await turn.get_by_label("What should it do next time?").fill("Begin with the answer.")
        await tab.keyboard.press("Enter")
        await expect(turn.locator(".opener.teach")).to_have_attribute("data-given", "")
        arrives.set()
    await tab.evaluate("() => new Promise(requestAnimationFrame)")
    await expect(down).to_have_attribute("aria-pressed", "true")


async def thumbs_of(chat: Session, position: int) -> list[int]:
    rows = Feedback.objects.standing().filter(turn__session=chat, turn__position=position, kind="thumb")
    return [value async for value in rows.values_list("value", flat=True)]


async def test_a_thumb_down_asks_at_once_and_one_tap_asks_for_the_same_again(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    first, second = await article(tab, 18), await article(tab, 19)
    await first.get_by_role("button", name="Bad reply").click()
    box = first.get_by_label("What should it do next time?")
    await expect(box).to_be_focused()
    await tab.keyboard.type("Begin with the answer.")
    await tab.keyboard.press("Enter")
    await expect(first.locator(".saved")).to_have_text("Saved")
    await expect(first.locator(".correction")).to_be_hidden()
    await expect(first.locator(".opener.teach")).to_have_attribute("data-given", "")

    # What was just said is offered under every other reply, before what was said earlier.
    await second.get_by_role("button", name="Bad reply").click()
    chips = second.locator("[data-lately] button")
    await expect(chips).to_have_text(["Begin with the answer.", "Answer in one or two short sentences."])
    await chips.first.click()
    await expect(second.locator(".saved")).to_have_text("Saved")
    said = Feedback.objects.standing().filter(kind="guidance", text="Begin with the answer.")
    assert {row.turn_id async for row in said} == {
        turn.pk async for turn in Turn.objects.filter(session=chat, position__in=(18, 19))
    }
    await stays(tab)


async def test_a_thumb_that_is_taken_back_takes_an_untouched_question_along(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 19)
    down = turn.get_by_role("button", name="Bad reply")
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "true")
    await down.click()
    await expect(turn.locator(".correction")).to_be_hidden()
    await expect(down).to_have_attribute("aria-pressed", "false")
    await down.click()
    await turn.get_by_label("What should it do next time?").fill("Half a")
    await expect(down).to_have_attribute("aria-pressed", "true")
    await down.click()
    await expect(down).to_have_attribute("aria-pressed", "false")
    await expect(turn.get_by_label("What should it do next time?")).to_have_value("Half a")
    await expect(turn.locator(".correction")).to_be_visible()


async def test_enter_saves_and_shift_enter_is_a_new_line_in_both_boxes(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 18)
    for tab_name, label, kind in (
        ("Next time, do", "What should it do next time?", "guidance"),
        ("It should have said", "What should it have said?", "rewrite"),
    ):
        await turn.locator(".opener.teach").click()
        await turn.locator(".tabs label").get_by_text(tab_name).click()
        keys = turn.locator(".send-keys:visible")
        await expect(keys).to_have_text("Enter saves, Shift+Enter for a new line")
        await turn.get_by_label(label).fill("One.")
        await tab.keyboard.press("End")
        await tab.keyboard.press("Shift+Enter")
        await tab.keyboard.type("Two.")
        await tab.keyboard.press("Enter")
        await expect(turn.locator(".correction")).to_be_hidden()
        assert [row.text async for row in Feedback.objects.standing().filter(turn__position=18, kind=kind)] == [
            "One.\nTwo."
        ]


async def test_a_comment_and_a_reason_say_that_they_were_saved(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 19)
    await turn.get_by_role("button", name="Good reply").click()
    await turn.locator(".reasons label").get_by_text("clear").click()
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await turn.locator(".saved").evaluate("sign => sign.replaceChildren()")
    await turn.get_by_label("Anything else about this reply").fill("Just right.")
    await tab.keyboard.press("Enter")
    await expect(turn.locator(".saved")).to_have_text("Saved")
    await expect(tab.locator("#announcer")).to_have_text("Saved.")


async def test_what_a_judge_guessed_is_refused_in_one_tap_in_the_chip(open_tab, chat):
    tab = await open_tab(f"/chats/{chat.pk}/")
    turn = await article(tab, 6)
    await turn.locator(".journey > summary").click()
    await expect(turn.locator(".journey q")).to_have_text("Add type hints.")
    await turn.get_by_role("button", name="That is not what I meant").click()
    await expect(turn.locator(".journey q")).to_have_count(0)
    hint = await Hint.objects.aget()
    assert (hint.status, hint.decided_by_id) == ("rejected", chat.user_id)
    await stays(tab)
