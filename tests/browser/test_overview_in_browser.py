"""The overview in a real browser: the first lesson step by step, live; webhooks and notices, on a phone too."""

from __future__ import annotations

import re

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from accounts.models import Account, Role
from accounts.roles import give
from chat.models import Turn
from webapp import sample_lesson
from webapp.notifications.models import Choice
from webapp.tasks import ask_samples

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1280, "height": 800}


@pytest.fixture
async def operator(ana):
    await sync_to_async(give)(ana, Role.ADMINISTRATOR)
    return ana


@pytest.mark.parametrize("size", [WIDE, pytest.param(PHONE, marks=pytest.mark.repeats)])
async def test_the_first_lesson_is_asked_and_taught_by_one_button_after_another(
    open_tab, operator, engine, monkeypatch, size
):
    def at_once(args, **options):
        sample_lesson.ask(get_user_model().objects.get(pk=args[0]), engine)

    monkeypatch.setattr(ask_samples, "apply_async", at_once)
    tab = await open_tab("/console/")
    await tab.set_viewport_size(size)
    steps = tab.get_by_role("region", name="Your first lesson")
    await expect(tab.locator("#board-headline")).to_be_hidden()  # one thing to do at a time
    await steps.get_by_role("button", name="Ask four questions").focus()
    await tab.keyboard.press("Enter")
    await steps.get_by_role("button", name="Teach this").click()
    await expect(steps.get_by_role("progressbar", name="Teach: 0 of 4")).to_be_visible()
    assert await Turn.objects.filter(feedback__text=sample_lesson.WISH).acount() == 4
    await fits(tab)
    await steps.get_by_role("button", name="Don’t show this again").click()
    await expect(steps).to_have_count(0)
    await expect(tab.locator("#board-headline")).to_be_visible()


async def test_an_open_overview_moves_by_itself(open_tab, operator, engine):
    tab = await open_tab("/console/")
    stops = tab.get_by_role("list", name="From talk to training and back")
    await expect(stops).to_contain_text("0 turns")
    await expect(tab.locator("body")).not_to_have_class(re.compile("offline"))
    await sync_to_async(sample_lesson.open_question)(operator, 0, "Why?")
    await expect(stops).to_contain_text("1 turn")


BROKEN = """() => [...document.querySelectorAll('.stepper :is(.stage, .stage-figure)')].flatMap((one) => {
    const text = one.firstChild;
    return [...text.data.matchAll(/[^\\s-]+/g)].filter((word) => {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        return range.getClientRects().length > 1;
    }).map((word) => word[0]);
})"""
"""The words of the stops that stand on more than one line."""


async def test_no_stop_of_a_narrow_overview_breaks_inside_a_word(open_tab, operator):
    await Account.objects.filter(user=operator).aupdate(language="de")
    tab = await open_tab("/console/")
    await tab.set_viewport_size(PHONE)
    await expect(tab.locator(".stepper")).to_contain_text("0 Wortwechsel")  # 88 px wide, and a fourth of it has 85
    assert await tab.evaluate(BROKEN) == []
    await fits(tab)


async def test_folds_of_a_card_stand_apart(open_tab, operator):
    tab = await open_tab("/console/judges/")
    folds = tab.get_by_role("region", name="What judges are told").locator("details")
    await expect(folds).to_have_count(2)
    first, second = [await fold.bounding_box() for fold in await folds.all()]
    assert second["y"] - first["y"] - first["height"] == 12  # --space-3


async def test_a_webhook_is_added_by_keyboard_and_refused_inside_this_machine(open_tab, operator):
    tab = await open_tab("/console/webhooks/")
    await tab.set_viewport_size(PHONE)
    await tab.get_by_label("Address").fill("http://127.0.0.1:6379/")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("alert")).to_contain_text("inside this machine or its network")
    await expect(tab.get_by_label("Address")).to_have_value("http://127.0.0.1:6379/")
    await fits(tab)


@pytest.mark.parametrize("size", [pytest.param(WIDE, marks=pytest.mark.repeats), PHONE])
async def test_a_person_chooses_how_to_hear_of_each_event(open_tab, operator, size):
    tab = await open_tab("/settings/")
    await tab.set_viewport_size(size)
    await tab.get_by_label("The disk is filling up: by e-mail").check()
    await tab.locator(".card", has=tab.locator("#email")).get_by_role("button", name="Save").click()
    await expect(tab.get_by_role("alert")).to_contain_text("Write your e-mail address")
    await expect(tab.get_by_label("The disk is filling up: by e-mail")).to_be_checked()
    await tab.get_by_label("Your e-mail address").fill("ana@example.org")
    await tab.locator(".card", has=tab.locator("#email")).get_by_role("button", name="Save").click()
    await expect(tab.get_by_role("status")).to_have_text("Saved.")
    assert await Choice.objects.filter(person=operator, event="disk", email=True).aexists()
    box = await tab.get_by_label("The disk is filling up: by e-mail").bounding_box()
    assert box["x"] + box["width"] <= size["width"]
