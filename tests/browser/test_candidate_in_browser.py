"""The page on which people decide, in a real browser: on a desktop and on a phone, in an order and within bounds."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from accounts.models import Role
from accounts.roles import give
from chat.models import Session, Turn
from checkpoints.models import Checkpoint, Decision
from evaluation.models import Comparison
from feedback.models import Feedback
from gate import general_pack
from gate.models import AskedAgain, Examination
from judge.models import Judgement
from tests.rows import made_by
from training import config
from training.models import Run, Sample

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Page, expect

from tests.browser.fitting import becomes, fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}

LONG = (
    "A rainbow is a beautiful arc of colours that appears in the sky when sunlight meets drops of water. The light is "
    "bent as it enters each drop, reflected at its back and bent again on its way out, and since each colour is bent "
    "by a different angle, white light is parted into red, orange, yellow, green, blue, indigo and violet. You can see "
    "one if the sun is behind you and it rains in front of you. Many people all over the world have told stories about "
    "rainbows, and they are a popular sight after a storm has passed."
)
CASES = (
    ("What is a rainbow?", LONG, "Sunlight that drops of rain bend and part into its colours.", "guidance"),
    (
        "Why do cats purr?",
        LONG.replace("rainbow", "purr"),
        "Cats purr to calm down, or when content.",
        "guidance",
    ),
    ("Name a good breakfast.", "Eggs, toast, fruit, juice and tea.", "Eggs with toast, and fruit.", "rewrite"),
    ("How far is the moon?", LONG, "About 384,000 kilometres away.", "guidance"),
    ("How do I boil an egg?", LONG, "Seven minutes in boiling water.", "guidance"),
)
FAILING = {"name": "variety", "passed": False, "value": 0.2, "limit": 0.75, "sentence": "20% differ.", "where": "pairs"}


def figures(live, candidate):
    return {
        "live_tokens": 96, "candidate_tokens": 12, "live_repeated": 0.02, "candidate_repeated": 0.0,
        "live_fluency": -1.42, "candidate_fluency": -1.6, "live_plain": -1.3, "candidate_plain": -1.7,
        "live_pull": 0.01, "candidate_pull": 0.12, "live_copied": 0.0, "candidate_copied": 0.02,
        "live_own": -1.1, "candidate_own": -1.2, "candidate_on_live": -1.5, "live": live, "candidate": candidate,
    }  # fmt: skip


def check(name, value=0.5, limit=0.1, where="", sentence="It is within its limit of 0.10 nats per token."):
    return {"name": name, "passed": True, "value": value, "limit": limit, "where": where, "sentence": sentence}


def gauge(name, live, candidate, limit):
    readings = [["live", live], ["candidate", candidate]]
    said = f"Its replies have {candidate:.2f} (live {live:.2f})."
    return {
        "name": name, "readings": readings, "scale": [0, 3], "sentence": said, "value": candidate, "limit": limit,
        "passed": True, "worst": [],
    }  # fmt: skip


@pytest.fixture
def candidate(ana) -> Checkpoint:
    """A candidate that passed, with an exam and five corrected questions; Ana runs this Talkback."""
    give(ana, Role.ADMINISTRATOR)
    base = Checkpoint.objects.get(number=0)
    steps = [{"update": n, "loss": 1 / n, "kl": 0.01 * n, "grad_norm": 0.5, "clip_fraction": 0.1} for n in range(1, 5)]
    recipe = config.PRESETS["embedded"].model_dump()
    run = Run.objects.create(status="finished", recipe=recipe, parent=base, metrics=steps, seed=7)
    made = made_by(run, Checkpoint.objects.create(
        number=1, adapter="talkback-1-9f8e7d6c5b4a", path="checkpoints/1", parent=base, status="passed",
        moved_at=timezone.now() - timedelta(minutes=3),
    ))  # fmt: skip
    items = [item for item in general_pack.items() if item.wrong][:29]
    rows = [
        {"id": item.id, "mark": item.mark, "live": [-1.0, *(-2.0 for _ in item.wrong)],
         "candidate": [-2.5 if at == 3 else -1.1, *(-2.0 for _ in item.wrong)]}
        for at, item in enumerate(items)
    ]  # fmt: skip
    names = [
        *["applied", "new", "length", "repetition", "variety", "fluency", "preference"],
        "not empty",
        "general pack",
        "gap",
    ]
    exam = Examination.objects.create(
        checkpoint=made, against=base, passed=True, finished_at=timezone.now(),
        progress={"phase": "done", "done": 46, "total": 46, "seconds": {"replies": 14.2, "general pack": 9.1}},
        pairs=[{"id": f"h{n}", "prompt": f"{question} (held out)", **figures(before, after)}
               for n, (question, before, after, _) in enumerate(CASES)],
        pack=rows, checks=[check(name) for name in names],
        meter={name: gauge(name, 1.4, 1.1, 0.2) for name in ("entropy", "kl to base", "copied")},
    )  # fmt: skip
    for number, (question, before, after, kind) in enumerate(CASES):
        session = Session.objects.create(user=ana, title=question)
        turn = Turn.objects.create(
            session=session, position=0, status="judged", checkpoint=base, text=before, response_ids=[8, 9, 2],
            messages=[{"role": "user", "content": question}], prompt_ids=[5, 6], finish_reason="stop",
            created_at=timezone.now() - timedelta(minutes=number),
        )  # fmt: skip
        said = "Answer in one short sentence." if kind == "guidance" else "Eggs, toast and fruit."
        Feedback.objects.create(turn=turn, by=ana, kind=kind, text=said)
        sample = Sample.objects.create(
            run=run, status="trained", checkpoint=base, prompt_ids=[5], response_ids=[8], behaviour_logprobs=[-1.0]
        )
        Judgement.objects.create(turn=turn, sample=sample, hint=said, hint_from=kind)
        AskedAgain.objects.create(examination=exam, turn=turn, live=before, candidate=after)
    return made


async def settle(tab: Page, size: dict[str, int]) -> None:
    await tab.set_viewport_size(size)
    await expect(tab.locator("#verdict")).to_be_visible()


async def picture(tab: Page, name: str) -> None:
    """Kept where SHOTS says, and nowhere by default."""
    if folder := os.environ.get("SHOTS"):
        await tab.screenshot(path=Path(folder) / f"{name}.png", full_page=True, caret="initial")


SIDEWAYS = """() => [...document.querySelectorAll("main, main *")]
    .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => !["visible", "clip"].includes(getComputedStyle(one).overflowX) || one.matches("main"))
    .filter((one) => !one.matches(".visually-hidden"))
    .map((one) => `${one.tagName}.${one.className}#${one.id}: ${one.scrollWidth} in ${one.clientWidth}`)"""
"""What has to be scrolled sideways to be read, on the page and in every part of it."""


async def top(tab: Page, selector: str) -> float:
    box = await tab.locator(selector).bounding_box()
    assert box is not None, f"{selector} is not to be seen"
    return box["y"]


@pytest.mark.parametrize(
    ("size", "most"), [(DESKTOP, 2.4), pytest.param(PHONE, 3.8, marks=pytest.mark.repeats)], ids=["desktop", "phone"]
)
async def test_the_verdict_comes_before_the_buttons_in_a_few_screens(open_tab, candidate, size, most):
    tab = await open_tab("/console/checkpoints/1/")
    await settle(tab, size)
    await picture(tab, f"passed-{size['width']}")
    verdict = tab.locator("#verdict")
    await expect(verdict).to_contain_text("Replies are")
    await expect(verdict).to_contain_text("28 of 29 general questions still right.")
    await expect(verdict).to_contain_text("Reads a little less smoothly.")
    await fits(tab)
    order = ["#verdict", "#again", "#approve", "#try > summary", "#figures", "#made"]
    tops = [await top(tab, selector) for selector in order]
    assert tops == sorted(tops)
    # Approve, try and reject stand in one place, above the fold of figures.
    assert await top(tab, "#figures") - await top(tab, "#decide") < size["height"] / 2
    height = await tab.evaluate("document.documentElement.scrollHeight")
    assert height < most * size["height"], f"{height / size['height']:.1f} screens"
    await becomes(tab, SIDEWAYS, [])


@pytest.mark.parametrize("size", [pytest.param(DESKTOP, marks=pytest.mark.repeats), PHONE], ids=["desktop", "phone"])
async def test_with_everything_unfolded_nothing_is_scrolled_sideways_and_bars_are_wide(open_tab, candidate, size):
    tab = await open_tab("/console/checkpoints/1/")
    await settle(tab, size)
    unfold = "document.querySelectorAll('main details').forEach((one) => (one.open = true))"
    await tab.evaluate(unfold)
    await expect(tab.locator("#figures .gauges meter")).to_have_count(6)
    await expect(tab.locator("#made .lineage")).to_have_count(1)
    await tab.evaluate(unfold)  # what the folds brought has folds too
    await picture(tab, f"unfolded-{size['width']}")
    if folder := os.environ.get("SHOTS"):
        await tab.locator("#figures").screenshot(path=Path(folder) / f"figures-{size['width']}.png", caret="initial")
    await becomes(tab, SIDEWAYS, [])
    widths = await tab.evaluate("[...document.querySelectorAll('.gauges meter')].map((one) => one.clientWidth)")
    assert len(widths) == 6
    assert min(widths) >= 90


async def test_words_that_differ_are_marked_in_fact_and_without_marks_there_is_no_legend(open_tab, candidate):
    tab = await open_tab("/console/checkpoints/1/")
    await settle(tab, DESKTOP)
    first = tab.locator("#again .pairs > li").first
    # Sunlight that drops of rain bend and part into its colours: three of its words stand nowhere in the reply before.
    assert await first.locator("mark.here").all_inner_texts() == ["rain bend", "part"]
    assert await first.locator("mark.gone").count() > 3
    await expect(tab.locator("#again .card-head")).to_contain_text("grey: gone · marked: new")
    await AskedAgain.objects.aupdate(candidate=LONG)
    await Turn.objects.aupdate(text=LONG)
    await tab.reload()
    await expect(tab.locator("#again mark")).to_have_count(0)
    await expect(tab.locator("#again .card-head")).not_to_contain_text("gone")


async def test_in_the_dark_it_is_as_well(open_tab, candidate):
    tab = await open_tab("/console/checkpoints/1/")
    await tab.emulate_media(color_scheme="dark")
    await settle(tab, DESKTOP)
    await picture(tab, "passed-dark")
    await settle(tab, PHONE)
    await picture(tab, "passed-dark-390")
    colours = "(one) => [getComputedStyle(one).backgroundColor, getComputedStyle(one).color]"
    ground, ink = await tab.locator("#verdict").evaluate(colours)
    assert ground != ink


async def test_a_rejected_one_says_in_words_what_failed(open_tab, candidate):
    await Examination.objects.aupdate(passed=False, checks=[FAILING])
    await Checkpoint.objects.filter(number=1).aupdate(status="rejected", reason="20% differ.")
    tab = await open_tab("/console/checkpoints/1/")
    await settle(tab, PHONE)
    await expect(tab.locator("#verdict")).to_contain_text("Different questions get the same reply.")
    await expect(tab.locator("#call")).to_contain_text("It failed the gate, and will not answer.")
    await picture(tab, "rejected-390")
    await becomes(tab, SIDEWAYS, [])


async def test_the_live_one_leads_back_and_one_under_examination_says_how_far_it_is(open_tab, candidate):
    progress = {"phase": "general pack", "done": 8, "total": 46}
    await Examination.objects.aupdate(passed=None, checks=[], finished_at=None, progress=progress)
    await Checkpoint.objects.filter(number=1).aupdate(status="candidate")
    tab = await open_tab("/console/checkpoints/1/")
    await tab.set_viewport_size(PHONE)
    await expect(tab.locator("#call")).to_contain_text("8 of 46 questions")
    await picture(tab, "examined-390")
    await becomes(tab, SIDEWAYS, [])

    await Examination.objects.aupdate(passed=True, checks=[check("length")])
    await Checkpoint.objects.filter(number=0).aupdate(status="retired")
    await Checkpoint.objects.filter(number=1).aupdate(status="live")
    await Decision.objects.acreate(verb="promote", checkpoint=candidate, line_id="shared")
    await expect(tab.locator("#call")).to_contain_text("It writes every new reply")  # by itself
    await expect(tab.get_by_role("button", name="Roll back to talkback@0")).to_be_visible()
    await picture(tab, "live-390")
    await becomes(tab, SIDEWAYS, [])
    await settle(tab, DESKTOP)
    await picture(tab, "live-1280")


HEARD = """window.heard = [];
window.Notification = class {
    static permission = "default";
    static async requestPermission() { return (this.permission = "granted"); }
    constructor(title, about) {
        window.heard.push([title, about.tag]);
        document.documentElement.dataset.heard = window.heard.length;
    }
    addEventListener() {}
};"""
"""A browser's notifications, as far as a page sees them."""


async def test_who_asks_for_it_is_told_once_when_a_candidate_waits(open_tab, candidate):
    tab = await open_tab("/console/notices/")
    await tab.add_init_script(HEARD)
    await tab.reload()
    switch = tab.get_by_role("button", name="Tell me in this browser")
    await expect(switch).to_have_attribute("aria-pressed", "false")
    assert await tab.evaluate("window.heard") == []
    await switch.click()
    await expect(switch).to_have_attribute("aria-pressed", "true")
    await expect(tab.locator("html")).to_have_attribute("data-heard", "1")
    assert await tab.evaluate("window.heard") == [["talkback@1 waits for you", "talkback@1"]]
    await switch.click()
    await expect(switch).to_have_attribute("aria-pressed", "false")
    await switch.click()  # it was told already, and is not told again
    await expect(switch).to_have_attribute("aria-pressed", "true")
    await tab.wait_for_timeout(300)
    assert len(await tab.evaluate("window.heard")) == 1


async def test_both_sides_of_a_blind_comparison_look_alike(open_tab, candidate):
    base = await Checkpoint.objects.aget(number=0)
    replies = [{"prompt": "Why?", "first": "One.", "second": "Two.", "is_swapped": False}]
    made = await Comparison.objects.acreate(
        first=base, second=candidate, prompts=["Why?"], replies=replies, status="answered"
    )
    tab = await open_tab(f"/console/compare/{made.pk}/")
    looks = """[...document.querySelectorAll(".pair.blind > div")].map((one) => {
        const { backgroundColor, boxShadow, color, border, outline, width } = getComputedStyle(one);
        return [backgroundColor, boxShadow, color, border, outline, width].join();
    })"""
    left, right = await tab.evaluate(looks)
    assert left == right
    await picture(tab, "blind")
