"""A run in a real browser: it moves while it learns, is stopped by keyboard, and is read afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from accounts.models import Role
from accounts.roles import give
from checkpoints import lines
from checkpoints.models import Checkpoint
from training import config, line_recipes, runs
from training.models import Run

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

HISTOGRAM = {"edges": [-1.0, -0.5, 0.5, 1.0], "counts": [2, 5, 3]}


async def picture(tab, name):
    """The whole page where SHOTS says, and nowhere by default."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def figures(update):
    return {"update": update, "loss": 1 / update, "kl": 0.1 * update, "advantage_histogram": HISTOGRAM}


@pytest.fixture
def run(ana) -> Run:
    """A run at work on its first update; Ana runs this Talkback."""
    give(ana, Role.ADMINISTRATOR)
    return Run.objects.create(
        status="running",
        recipe=config.PRESETS["embedded"].model_dump(),
        parent=Checkpoint.live(),
        progress={"phase": "learning", "share": 0.1875, "eta_s": 70},
        metrics=[figures(1)],
    )


async def test_a_run_is_watched_stopped_by_keyboard_and_read(open_tab, run):
    tab = await open_tab(f"/console/runs/{run.pk}/")
    state = tab.locator("#run-state")
    await expect(state).to_contain_text("19 %")
    await expect(state).to_contain_text("about 70 s to go")

    # what is opened stays open, and who is at it by keyboard stays there, when the figures come anew
    numbers = tab.locator("#numbers-loss")
    await numbers.locator("summary").focus()
    await tab.keyboard.press("Enter")
    await expect(numbers.locator("tbody tr")).to_have_count(1)
    progress = {"phase": "learning", "share": 0.5625, "eta_s": 40}
    await Run.objects.filter(pk=run.pk).aupdate(progress=progress, metrics=[figures(1), figures(2)])
    await expect(state).to_contain_text("56 %")
    await expect(numbers.locator("tbody tr")).to_have_count(2)
    await expect(numbers).to_have_attribute("open", "")
    await expect(numbers.locator("summary")).to_be_focused()
    await expect(tab.get_by_role("img", name="loss: from 1 to 0.5 in 2 updates")).to_be_visible()
    await expect(tab.locator("#chart-advantages rect")).to_have_count(6)

    # it is stopped from the page; the worker, who hears of it, fails it, and the page says so by itself
    await tab.get_by_role("button", name="Cancel").focus()
    await tab.keyboard.press("Enter")
    await expect(state).to_contain_text("It stops after the current sample")
    assert (await Run.objects.aget(pk=run.pk)).cancel_asked
    await sync_to_async(runs.fail)(run, "Stopped by a person.")
    await expect(state).to_contain_text("It failed. Stopped by a person.")
    await expect(tab.locator("#run-status")).to_have_text("failed")

    await tab.get_by_role("link", name="All runs").click()
    await expect(tab.locator(f"#run-{run.pk}")).to_contain_text("Stopped by a person.")


async def test_a_button_that_is_being_pressed_while_the_figures_come_anew_is_pressed(open_tab, run):
    tab = await open_tab(f"/console/runs/{run.pk}/")
    state = tab.locator("#run-state")
    await tab.get_by_role("button", name="Cancel").hover()
    await tab.mouse.down()
    progress = {"phase": "learning", "share": 0.5625, "eta_s": 40}
    await Run.objects.filter(pk=run.pk).aupdate(progress=progress, metrics=[figures(1), figures(2)])
    await expect(tab.locator("#numbers-loss tbody tr")).to_have_count(2)
    await expect(state).to_contain_text("19 %")  # not under the press
    await tab.mouse.up()
    await expect(state).to_contain_text("It stops after the current sample")
    await expect(state).to_contain_text("56 %")


async def test_a_recipe_is_tried_in_its_place_and_given_to_a_line(open_tab, run):
    line = await sync_to_async(lines.make)("The team")
    tab = await open_tab("/console/recipe/")
    await tab.get_by_label("JSON: “preset” names the one").fill('{"lr": 0}')
    await tab.get_by_role("button", name="Try it").click()
    await expect(tab.locator("#tried")).to_contain_text("lr: should be greater than 0.")
    assert tab.url.endswith("/console/recipe/")

    # a preset as a card, a knob by its slider, and what would change before it is saved
    await tab.get_by_role("navigation", name="Whose recipe").get_by_role("link", name="The team").click()
    form = tab.locator("#recipe-form")
    await form.get_by_role("radio", name="binary").check()
    await expect(form.get_by_role("textbox", name="Learning rate")).to_have_value("0.0001")
    await expect(form.get_by_role("radio", name="binary")).to_be_focused()
    await form.get_by_role("slider", name="Learning rate").fill("-3")
    await expect(form.get_by_role("textbox", name="Learning rate")).to_have_value("0.001")
    await form.get_by_role("textbox", name="Updates a run takes").fill("0")
    await form.get_by_role("button", name="Show what would change").click()
    await expect(form.get_by_role("textbox", name="Updates a run takes")).to_be_focused()
    await expect(form).to_contain_text("Should be greater than or equal to 1.")
    await expect(form.get_by_role("textbox", name="Learning rate")).to_have_value("0.001")
    await form.get_by_role("textbox", name="Updates a run takes").fill("3")
    await form.get_by_role("button", name="Show what would change").click()
    await expect(tab.locator("#recipe-change")).to_contain_text("Updates a run takes updates 4 ▸ 3")
    await picture(tab, "recipe")
    await tab.set_viewport_size({"width": 390, "height": 844})
    await expect(tab.locator("html")).to_have_js_property("scrollWidth", 390)
    await tab.emulate_media(color_scheme="dark")
    await picture(tab, "recipe-390-dark")
    await form.get_by_role("button", name="Save").click()
    await expect(tab.locator(".note.good")).to_contain_text("learns by binary with updates 3, lr 0.001")
    assert (await sync_to_async(line_recipes.recipe_of)(line.name)).updates == 3
    await tab.get_by_role("button", name="Undo").click()
    await expect(tab.locator(".note.good")).to_contain_text("the installation’s recipe again")
