"""The review desk by keyboard alone, in a real browser, with another reviewer at work beside."""

from __future__ import annotations

import asyncio
import re

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from accounts.models import Role
from accounts.roles import give
from chat.models import Turn
from judge.hints import reviews, undecided
from judge.models import Hint, Overruling, Ruling
from tests.webapp.desk_cast import fill, make_hint

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, Route, expect

from tests.browser.fitting import fits, hold

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


@pytest.fixture
def made(ana, ben):
    """Eight hints that wait; Ana may review."""
    give(ana, Role.ADMINISTRATOR)
    return fill([ana, ben], 8)


async def status(hint: Hint) -> str:
    return (await Hint.objects.aget(pk=hint.pk)).status


async def is_at(tab: Page, hint: Hint) -> None:
    """This one is on the desk, and marked in the list."""
    await expect(tab.locator("#hint")).to_have_attribute("data-at-hand", str(hint.pk))
    await expect(tab.locator(f"#hint-link-{hint.pk}")).to_have_attribute("aria-current", "true")


async def press(tab: Page, *keys: str) -> None:
    for key in keys:
        await tab.keyboard.press(key)


async def test_a_queue_is_reviewed_by_keyboard_alone(open_tab, made):
    tab = await open_tab("/console/hints/")
    toast = tab.locator("#toast")
    await is_at(tab, made[0])

    # there and back
    await press(tab, "j")
    await is_at(tab, made[1])
    await press(tab, "j", "j")
    await is_at(tab, made[3])
    await press(tab, "k", "k", "k", "k")
    await is_at(tab, made[0])

    # accept: the next one is on the desk, the row is gone, the count too
    await press(tab, "a")
    await is_at(tab, made[1])
    await expect(toast).to_contain_text("Accepted: “Canberra is Australia")
    await expect(tab.locator(f"#hint-row-{made[0].pk}")).to_have_count(0)
    await expect(tab.locator("#hint-counts")).to_contain_text("waiting 7")
    assert await status(made[0]) == "accepted"

    # edit: letters are letters while typing, Escape leaves and keeps, Ctrl+Enter saves
    await press(tab, "e")
    area = tab.locator("#hint textarea")
    await expect(area).to_be_focused()
    await tab.keyboard.type(" Never adjourn, or take a break.")
    await press(tab, "Escape")
    await expect(area).to_be_hidden()
    await press(tab, "j")
    await is_at(tab, made[2])
    await press(tab, "k")
    await is_at(tab, made[1])
    await press(tab, "e")
    await expect(area).to_have_value(f"{made[1].text} Never adjourn, or take a break.")
    await press(tab, "Control+Enter")
    await is_at(tab, made[2])
    assert (await Hint.objects.aget(pk=made[1].pk)).text.endswith("or take a break.")
    assert await status(made[1]) == "edited"

    # reject, and reject with a reason
    await press(tab, "r")
    await is_at(tab, made[3])
    await press(tab, "2")
    await is_at(tab, made[4])
    assert [await status(hint) for hint in made[2:4]] == ["rejected", "rejected"]
    assert (await Ruling.objects.aget(hint=made[3])).reason == "wrong"

    # select two, decide both, and take it back
    await press(tab, "x", "j")
    await is_at(tab, made[5])
    await press(tab, "x")
    await expect(tab.locator("#many")).to_contain_text("2 selected")
    await press(tab, "a")
    await is_at(tab, made[6])
    await expect(toast).to_contain_text("Accepted: 2 hints.")
    assert [await status(hint) for hint in made[4:6]] == ["accepted", "accepted"]
    await press(tab, "u")
    await expect(tab.locator("#hint-counts")).to_contain_text("waiting 4")
    assert [await status(hint) for hint in made[4:6]] == ["waiting", "waiting"]

    # and step by step what was before it
    await expect(toast).to_contain_text("Taken back")
    await press(tab, "u")
    await is_at(tab, made[3])
    await expect(tab.locator("#hint-counts")).to_contain_text("waiting 5")
    assert await status(made[3]) == "waiting"

    # never learn from it
    await press(tab, "n")
    await expect(tab.locator(f"#hint-row-{made[3].pk}")).to_have_count(0)
    assert not (await Turn.objects.aget(pk=made[3].turn_id)).learns


async def test_what_is_pressed_for_one_on_its_way_is_not_done_to_the_next(open_tab, made):
    tab = await open_tab("/console/hints/")
    await is_at(tab, made[0])
    shown, decided = asyncio.Event(), []
    tab.on("request", lambda request: decided.append(request.url) if request.method == "POST" else None)

    async def wait(route: Route) -> None:
        await shown.wait()
        await route.continue_()

    await hold(tab, re.compile(r"/console/hints/\d+/"), wait)  # no hint arrives before all is pressed
    await press(tab, "j", "a", "j")
    await expect(tab.locator("#hint")).to_have_attribute("data-at-hand", str(made[0].pk))
    shown.set()
    await is_at(tab, made[2])
    await press(tab, "j")
    await is_at(tab, made[3])
    await press(tab, "e")
    await expect(tab.locator("#hint textarea")).to_be_focused()  # it has settled: nothing pressed waits any more

    assert not decided
    assert {await status(hint) for hint in made} == {"waiting"}

    # What is pressed for the last of them is done to it once it is there.
    shown.clear()
    await press(tab, "Escape", "j", "j", "a")
    shown.set()
    await expect(tab.locator("#toast")).to_contain_text("Accepted")
    assert [await status(hint) for hint in made[3:6]] == ["waiting", "waiting", "accepted"]


async def test_search_help_and_merge_are_keys_as_well(open_tab, made, ana):
    first = await sync_to_async(make_hint)(ana, "Keep it short.")
    second = await sync_to_async(make_hint)(ana, "Please use fewer words next time.")
    tab = await open_tab("/console/hints/")
    await press(tab, "?")
    await expect(tab.get_by_text("next, previous")).to_be_visible()
    await press(tab, "Escape")
    await expect(tab.get_by_text("next, previous")).to_be_hidden()

    await press(tab, "/")
    await tab.keyboard.type("keep it")
    await expect(tab.locator(".queue-row")).to_have_count(1)
    assert await status(made[0]) == "waiting"  # no letter of it was a command
    await press(tab, "Escape", "j")
    await is_at(tab, first)

    await press(tab, "m")
    await expect(tab.locator("#targets input:checked")).to_be_focused()
    await press(tab, "Enter")
    await expect(tab.locator("#toast")).to_contain_text("Merged")
    merged = await Hint.objects.aget(pk=first.pk)
    assert (merged.status, merged.merged_into_id) == ("merged", second.pk)


async def test_what_is_decided_in_a_search_leaves_the_search_as_it_is(open_tab, made):
    tab = await open_tab("/console/hints/")
    await press(tab, "/")
    await tab.keyboard.type("capital")
    await expect(tab.locator(".queue-row")).to_have_count(1)
    await press(tab, "Escape", "x", "r")
    await expect(tab.locator("#toast")).to_contain_text("Rejected: 1 hint.")
    await expect(tab.locator("#queue")).to_contain_text("No waiting hint has “capital” in it.")
    await expect(tab.get_by_role("searchbox")).to_have_value("capital")
    assert await status(made[0]) == "rejected"


async def test_keys_with_a_modifier_are_the_browsers(open_tab, made):
    tab = await open_tab("/console/hints/")
    await is_at(tab, made[0])
    await press(tab, "Alt+a", "Control+e", "Alt+r", "j")
    await is_at(tab, made[1])
    assert await status(made[0]) == "waiting"
    await expect(tab.locator("#hint textarea")).to_be_hidden()


async def test_another_reviewer_came_first_and_nothing_typed_is_lost(open_tab, made, ben):
    tab = await open_tab("/console/hints/")
    await press(tab, "e")
    area = tab.locator("#hint textarea")
    await expect(area).to_be_focused()
    await tab.keyboard.type(" And say why.")
    await sync_to_async(reviews.reject)(made[0], by=ben)

    await press(tab, "Control+Enter")

    await expect(tab.locator("#hint [role=alert]")).to_contain_text(re.compile("ben rejected this hint", re.I))
    await expect(area).to_have_value(f"{made[0].text} And say why.")
    await expect(tab.locator(f"#hint-row-{made[0].pk}")).to_contain_text("rejected by ben")
    assert await status(made[0]) == "rejected"
    await area.press("Control+Enter")  # having seen it, one may still
    await is_at(tab, made[1])
    assert await status(made[0]) == "edited"


async def test_rewards_are_overturned_by_keyboard(open_tab, made):
    unclear = [turn async for turn in undecided.unclear().order_by(F("judgement__judged_at").desc(), "-pk")]
    tab = await open_tab("/console/rewards/")
    await expect(tab.locator("#reward")).to_have_attribute("data-at-hand", str(unclear[0].pk))
    await press(tab, "j", "k", "+")
    await expect(tab.get_by_placeholder("Why:")).to_be_focused()
    await tab.keyboard.type("joking, not angry")
    await press(tab, "Enter")
    await expect(tab.locator("#reward")).to_have_attribute("data-at-hand", str(unclear[1].pk))
    word = await Overruling.objects.aget()
    assert (word.turn_id, word.reward, word.reason) == (unclear[0].pk, 1, "joking, not angry")
    await press(tab, "u")
    await expect(tab.locator("#toast")).to_contain_text("Taken back")
    assert not await Overruling.objects.aexists()


async def test_a_phone_shows_all_of_it(open_tab, made):
    tab = await open_tab("/console/hints/")
    await tab.set_viewport_size({"width": 390, "height": 844})
    for page in ("hints", "rewards", "audit"):
        await tab.goto(f"{tab.url.partition('/console/')[0]}/console/{page}/")
        await fits(tab)
