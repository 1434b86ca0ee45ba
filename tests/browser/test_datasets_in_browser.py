"""Datasets out and in, weights for other tools, and two reviewers, in a real browser, at a desk and on a phone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async

from accounts.models import Role
from accounts.roles import give
from benchmarks.tiny import write_tiny_adapter
from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from evaluation import weight_files
from evaluation.datasets import exporting, importing
from evaluation.models import Export, Import
from feedback.models import Feedback
from judge.annotators import readings
from judge.hints import reviews
from judge.models import Claim, Hint, Reading
from tests.webapp.desk_cast import fill
from training.models import Sample

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install -e '.[browser]'")
from playwright.async_api import Locator, Page, expect

from tests.browser.fitting import fits

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True, serialized_rollback=True)]

WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


@pytest.fixture
def operator(ana, settings, tmp_path, tiny_model):
    settings.DATA_DIR, settings.MODEL = tmp_path, str(tiny_model)
    give(ana, Role.OPERATOR)
    return ana


@pytest.fixture
def taught(operator):
    """Three replies that Ana wrote anew, and one that is off the record."""
    session = Session.objects.create(user=operator)
    for at, (asked, said, better) in enumerate(
        (
            ("What is the capital of Australia?", "Sydney, a large and lively city.", "Canberra."),
            ("Write to ana@example.com for me.", "Done.", "I cannot send mail; here is a draft."),
            ("Explain recursion.", "It calls itself, and so on.", "A function that calls itself on a smaller part."),
            ("A secret?", "Yes.", "No."),
        )
    ):
        turn = Turn.objects.create(
            session=session, position=at, status="observed", checkpoint=Checkpoint.live(), finish_reason="stop",
            messages=[{"role": "user", "content": asked}], text=said, response_ids=[8, 2], learns=at < 3,
        )  # fmt: skip
        Feedback.objects.create(turn=turn, by=operator, kind="rewrite", text=better)


async def looked_at(tab: Page, name: str) -> None:
    """The page holds at both widths, light and dark; a picture of each where SHOTS names a folder."""
    for size, scheme in ((WIDE, "light"), (PHONE, "light"), (PHONE, "dark")):
        await tab.set_viewport_size(size)
        await tab.emulate_media(color_scheme=scheme)
        await fits(tab)
        if folder := os.environ.get("SHOTS"):
            place = Path(folder) / f"{name}-{size['width']}-{scheme}.png"
            await tab.screenshot(path=place, full_page=True)
    await tab.set_viewport_size(WIDE)
    await tab.emulate_media(color_scheme="light")


async def downloaded(tab: Page, link: Locator, to: Path) -> bytes:
    """What the file behind this link holds."""
    async with tab.expect_download() as download:
        await link.click()
    await (await download.value).save_as(to)
    return await sync_to_async(to.read_bytes)()


async def test_from_what_people_taught_to_a_file_on_this_machine(open_tab, taught, tmp_path):
    tab = await open_tab("/console/datasets/")
    await expect(tab.get_by_text("Nothing was exported yet.")).to_be_visible()
    await looked_at(tab, "datasets-empty")
    await tab.get_by_label("Which lessons").select_option("any")
    await tab.locator("[name=kind]").select_option("dpo")
    await tab.get_by_role("button", name="Show the first rows").click()
    rows = tab.locator("#first-rows")
    await expect(rows.locator("article")).to_have_count(3)
    await expect(rows).to_contain_text("Write to [email 1] for me.")
    await expect(rows).to_contain_text("1 in all: off the record")
    await looked_at(tab, "datasets-preview")

    await tab.locator("#export").click()
    made = tab.locator("#made")
    await expect(made).to_contain_text("Waits for a worker.")
    await sync_to_async(exporting.make)((await Export.objects.aget()).pk)
    await expect(made.get_by_role("link", name="dpo.jsonl")).to_be_visible()  # the page looked by itself
    await looked_at(tab, "datasets-made")
    data = await downloaded(tab, made.get_by_role("link", name="dpo.jsonl"), tmp_path / "dpo.jsonl")
    assert json.loads(data.splitlines()[0])["chosen"][0]["content"] == "Canberra."
    await made.get_by_role("button", name="Delete now").click()
    await expect(made).to_contain_text("ana deleted its files.")


async def test_a_file_of_examples_is_looked_at_agreed_to_and_undone(open_tab, operator, tmp_path, tiny_model):
    file = tmp_path / "support.jsonl"
    rows = [{"prompt": f"How do I do {n}?", "completion": f"Press {n}, then **Save**."} for n in range(6)]
    file.write_text("\n".join([*map(json.dumps, rows), "nonsense", '{"prompt": "Only this"}']))
    tab = await open_tab("/console/datasets/")
    await tab.locator("input[type=file]").set_input_files(file)
    await tab.locator("#bring").click()
    await expect(tab.get_by_text("The file is being read.")).to_be_visible()
    found = await Import.objects.aget()
    await sync_to_async(importing.look)(found.pk)
    await expect(tab.get_by_role("heading", name="First examples")).to_be_visible()  # the page looked by itself
    await tab.get_by_text("By place").click()
    await expect(tab.locator(".refusals")).to_contain_text("line 7: it is no JSON")
    await looked_at(tab, "import-read")
    await tab.get_by_label("Where do the examples come from?").fill("Support answers of 2025")
    await tab.get_by_label("These texts may be learned from").check()
    await tab.get_by_role("button", name="Learn from 6 examples").click()
    await expect(tab.get_by_text("Lessons are being made of it.")).to_be_visible()
    await sync_to_async(importing.take)(found.pk, renderer=Renderer.for_model(tiny_model))
    await expect(tab.get_by_text("6 lessons wait for training.")).to_be_visible()
    await looked_at(tab, "import-taken")
    await tab.locator("#undo").click()
    await expect(tab.get_by_text("The import was undone.")).to_be_visible()
    assert await Sample.objects.filter(status="stale").acount() == 6


async def test_a_checkpoint_becomes_a_gguf_file(open_tab, operator, tmp_path):
    write_tiny_adapter(tmp_path / "checkpoints" / "talkback-1", seed=3, scale=0.1)
    base = await Checkpoint.objects.aget(number=0)
    await Checkpoint.objects.acreate(
        number=1, kind="lora", status="passed", parent=base, adapter="talkback-1", path="checkpoints/talkback-1"
    )
    tab = await open_tab("/console/checkpoints/1/")
    card = tab.locator("#files")
    await card.locator("#make-gguf").click()
    await expect(card).to_contain_text("Waits for a worker.")
    await expect(card.locator("#make-gguf")).to_be_disabled()
    await sync_to_async(weight_files.make)((await Export.objects.aget()).pk)
    await expect(card.get_by_role("link", name="talkback-1.gguf")).to_be_visible()
    await card.scroll_into_view_if_needed()
    await looked_at(tab, "checkpoint-files")
    data = await downloaded(tab, card.get_by_role("link", name="talkback-1.gguf"), tmp_path / "x.gguf")
    assert data[:4] == b"GGUF"


@pytest.fixture
def shared(operator, ben):
    """Six hints that wait, two of which Ben decided; of all that is decided a second look is wanted."""
    give(ben, Role.REVIEWER)
    hints = fill([operator, ben], 6)
    readings.set_rules("hint", guidelines="Accept what holds **tomorrow**.\n\n- Reject chatter.", share=100, by=ben)
    for hint, verb in zip(hints[:2], (reviews.accept, reviews.reject), strict=True):
        readings.note([verb(hint, by=ben)], ben)
    Claim.objects.create(desk="hint", item=str(hints[2].pk), by=ben, until="2100-01-01T00:00Z")
    return hints


async def test_two_reviewers_share_the_desk_look_twice_and_settle(open_tab, shared):
    tab = await open_tab("/console/hints/")
    await expect(tab.locator("#hint")).to_have_attribute("data-at-hand", str(shared[3].pk))  # Ben has the one before
    await expect(tab.locator(f"#hint-row-{shared[2].pk}")).to_contain_text("ben looks at it")
    await expect(tab.locator("#guidelines strong")).to_have_text("tomorrow")
    await looked_at(tab, "desk-claimed")
    await tab.keyboard.press("k")
    await expect(tab.locator("#claimed")).to_contain_text("ben is looking at this until")
    await tab.keyboard.press("a")
    await expect(tab.locator("#hint [role=alert]")).to_contain_text("ben is looking at this")
    assert (await Hint.objects.aget(pk=shared[2].pk)).status == "waiting"
    await tab.keyboard.press("j")
    await tab.keyboard.press("r")
    await expect(tab.locator("#toast")).to_contain_text("Rejected")
    await tab.keyboard.press("u")
    await expect(tab.locator("#toast")).to_contain_text("Taken back")

    await tab.goto(f"{tab.url.partition('/console/')[0]}/console/reviewers/")
    await tab.get_by_role("link", name="Take a second look at 2").click()
    at = tab.locator("#second-look")
    await expect(at).to_contain_text("Canberra is Australia")
    await looked_at(tab, "second-look")
    await tab.keyboard.press("a")  # as Ben
    await expect(at).to_contain_text("Answer in two sentences")
    await tab.keyboard.press("a")  # Ben rejected it
    await expect(tab.get_by_text("Nothing waits for your second look.")).to_be_visible()
    assert await Reading.objects.filter(is_second=True).acount() == 2

    await tab.get_by_role("link", name="How far reviewers agree").click()
    await expect(tab.locator("#hint-agreement")).to_contain_text("50 %")
    wrong = tab.locator("[id^=disagreement-]")
    await expect(wrong).to_contain_text("reject")
    await looked_at(tab, "reviewers")
    await wrong.get_by_role("button", name="accept", exact=True).click()
    await expect(tab.get_by_text("Settled: accept.")).to_be_visible()
    await expect(wrong).to_have_count(0)
    assert (await Hint.objects.aget(pk=shared[1].pk)).status == "accepted"
