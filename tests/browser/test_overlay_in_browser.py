"""Runs over one another in a real browser: chosen in the list, read in step, zoomed, smoothed, sent as an address."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from accounts.models import Role
from accounts.roles import give
from checkpoints.models import Checkpoint
from training import config
from training.models import Run

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import expect

from tests.browser.fitting import becomes

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]


async def picture(tab, name):
    """The whole page in SHOTS, where that names a folder."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def updates(number, rate):
    return [
        {
            "update": n,
            "loss": rate / n + (0.05 if n % 2 else 0.0),
            "policy_loss": rate / (2 * n),
            "kl": 0.01 * n * rate,
            "entropy": 2.0 - 0.01 * n,
            "clip_fraction": min(0.5, 0.01 * n * rate),
            "grad_norm": 0.4 + 0.9 * (n % 5 == 0),
            "advantage_mean": -0.2 if n == 1 else 0.1,
            "at_s": 30.0 * n,
        }
        for n in range(1, number + 1)
    ]


@pytest.fixture
def two(ana) -> list[Run]:
    """Two runs that are over, of forty updates and of twenty; Ana runs this Talkback."""
    give(ana, Role.OPERATOR)
    usage = [
        {
            "at_s": 60.0 * n,
            "updates": 2.0 * n,
            "cpu": 1 + n % 3 / 3,
            "memory_mib": 900.0 + n,
            "gpu": 0.8,
            "gpu_mib": 9e3,
        }
        for n in range(1, 21)
    ]
    recipe = config.PRESETS["embedded"].model_dump()
    about = {"status": "finished", "recipe": recipe, "parent": Checkpoint.live(), "usage": usage}
    return [Run.objects.create(metrics=updates(number, rate), **about) for number, rate in ((40, 1.0), (20, 2.0))]


def values(tab, chart):
    return tab.locator(f"#chart-{chart} .u-legend .u-value")


async def point_at_end(tab, chart, left=2):
    """With the mouse at the last of its points. `left`: how far from the right edge; another one is a move."""
    over = tab.locator(f"#chart-{chart} .u-over")
    await over.scroll_into_view_if_needed()
    box = await over.bounding_box()
    await over.hover(position={"x": box["width"] - left, "y": 20})


WIDTHS = """() => new Set([...document.querySelectorAll(":is(#chart-clip, #chart-loss) canvas")]
    .map((one) => getComputedStyle(one).width)).size"""
"""How many widths the two charts have."""


async def test_runs_are_chosen_read_in_step_zoomed_smoothed_and_sent(open_tab, two):
    first, second = two
    tab = await open_tab("/console/runs/")
    for run in two:
        await tab.get_by_role("checkbox", name=f"Choose run {run.pk}").check()
    await picture(tab, "runs-list")
    await tab.get_by_role("button", name="Lay over one another").click()
    await expect(tab.locator("[data-drawn]")).to_have_attribute(
        "data-drawn", "10"
    )  # six of updates, four of the machine
    await expect(tab).to_have_url(re.compile(rf"\?runs={second.pk}&runs={first.pk}$"))  # the newest is the first

    # pointing at one chart reads all of them at the same update: the last, where the shorter run has ended
    await point_at_end(tab, "loss")
    await expect(values(tab, "kl").nth(0)).to_have_text("40")
    await expect(values(tab, "kl").nth(1)).to_have_text("–")
    await expect(values(tab, "kl").nth(2)).to_have_text("0.4")  # 0.01 · 40 · 1
    await picture(tab, "overlay")

    # dragging zooms all charts to the same stretch, and a button goes back
    box = await tab.locator("#chart-loss .u-over").bounding_box()
    await tab.mouse.move(box["x"] + 5, box["y"] + 40)
    await tab.mouse.down()
    await tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
    await tab.mouse.up()
    await point_at_end(tab, "kl")
    await expect(values(tab, "entropy").nth(0)).to_have_text("20")  # the middle of 1 to 40
    await tab.get_by_role("button", name="Whole range").click()
    await point_at_end(tab, "kl", left=3)
    await expect(values(tab, "entropy").nth(0)).to_have_text("40")

    # by keyboard: read the first point, then the next
    plot = tab.locator("#chart-loss .plot")
    await plot.focus()
    for _ in range(45):
        await tab.keyboard.press("ArrowLeft")
    await expect(values(tab, "loss").nth(0)).to_have_text("1")
    await expect(values(tab, "loss").nth(1)).to_have_text("2.05")  # the newest run: 2 / 1 + 0.05
    await tab.keyboard.press("ArrowRight")
    await expect(values(tab, "kl").nth(0)).to_have_text("2")

    # smoothed: the legend says both, and the address keeps what was chosen
    await tab.get_by_label("Smoothing").fill("0.5")
    await tab.get_by_label("Smoothing").dispatch_event("change")
    await plot.focus()
    for key in ("ArrowLeft", "ArrowRight"):  # from the first to the second update: half of 1.05 and half of 0.5
        for _ in range(45 if key == "ArrowLeft" else 1):
            await tab.keyboard.press(key)
    await expect(tab.locator("#chart-loss .u-legend")).to_contain_text("0.5, smoothed 0.775")
    await expect(tab).to_have_url(re.compile("smooth=0.5"))

    # a logarithm has no place for what is below 0, and says so
    await tab.get_by_label("Scale").select_option("log")
    await expect(tab.locator("#chart-advantages .plot-lost")).to_contain_text("Left out: 2")
    await expect(tab).to_have_url(re.compile("scale=log"))
    await picture(tab, "overlay-log-smooth")
    await tab.get_by_label("Along the foot").select_option("time")
    await expect(tab.locator("#chart-loss .u-legend .u-label").first).to_have_text("minute")

    # who is sent the address sees the same
    other = await open_tab(tab.url.removeprefix(tab.url.split("/console")[0]))
    await expect(other.get_by_label("Scale")).to_have_value("log")
    await expect(other.get_by_label("Along the foot")).to_have_value("time")
    await expect(other.locator("[data-drawn]")).to_have_attribute("data-drawn", "10")
    await other.emulate_media(color_scheme="dark")
    await picture(other, "overlay-dark")
    await other.set_viewport_size({"width": 390, "height": 844})
    await expect(other.locator("html")).to_have_js_property("scrollWidth", 390)
    await picture(other, "overlay-390")


async def test_a_note_is_written_in_its_place_and_the_list_is_searched_by_it(open_tab, two):
    tab = await open_tab(f"/console/runs/{two[0].pk}/")
    await expect(tab.locator("#run-limits")).to_contain_text("2 limits were passed.")

    # its own charts are read in step as well; what is folded away is drawn as wide as the rest once it is opened
    await point_at_end(tab, "loss")
    await expect(values(tab, "kl").nth(1)).to_have_text("0.4")
    await tab.locator("#run-limits").get_by_role("link", name="See the chart").first.click()
    await expect(tab.locator("#chart-clip .u-over")).to_be_visible()
    await becomes(tab, WIDTHS, 1)
    await tab.locator("#note-edit summary").click()
    await tab.get_by_role("textbox", name="Note").fill("Half the rate.")
    await tab.get_by_label("Tags, with commas between").fill("baseline, short")
    await tab.locator("#run-notes").get_by_role("button", name="Save").click()
    await expect(tab.locator("#run-notes")).to_contain_text("Written by ana")
    await picture(tab, "run")
    await tab.set_viewport_size({"width": 390, "height": 844})
    await expect(tab.locator("html")).to_have_js_property("scrollWidth", 390)
    await picture(tab, "run-390")
    await tab.locator("#run-notes").get_by_role("link", name="baseline").click()
    await expect(tab.locator(f"#run-{two[0].pk}")).to_contain_text("Half the rate.")
    await expect(tab.locator(f"#run-{two[1].pk}")).to_have_count(0)
    await expect(tab.locator("html")).to_have_js_property("scrollWidth", 390)
    await picture(tab, "runs-list-390")


async def test_without_scripts_the_pictures_stay(open_tab, two):
    tab = await open_tab("/console/runs/")
    plain = await tab.context.browser.new_context(java_script_enabled=False)
    await plain.add_cookies(await tab.context.cookies())
    page = await plain.new_page()
    query = "&".join(f"runs={run.pk}" for run in two)
    await page.goto(tab.url.replace("/runs/", f"/runs/overlay/?{query}&x=time"))
    await expect(page.get_by_role("img", name=f"run {two[0].pk}: from 1.05 to 0.025")).to_be_visible()
    await expect(page.get_by_role("button", name="Show")).to_be_visible()
    await expect(page.get_by_label("Smoothing")).to_be_hidden()
    await picture(page, "overlay-noscript")
