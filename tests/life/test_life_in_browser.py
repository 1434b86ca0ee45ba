"""The whole life again, through the real pages in a real browser; pictures are kept in artefacts/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stack import ROOT, Stack, running_stack
from tests.chromium import Chromium

playwright = pytest.importorskip("playwright.sync_api", reason="the browser extra is not installed")
from playwright.sync_api import Locator, Page, expect  # noqa: E402

PICTURES = ROOT / "artefacts"
GUIDANCE = "Answer in one short sentence."
SHORT = {"batch_size": 16, "updates": 2, "gate": {"max_new_tokens": 32, "pack": 8}}
"""What is learned and examined is the default recipe's, half as long: here it is clicked. tests/life plays it whole."""

pytestmark = [pytest.mark.browser, pytest.mark.real_model, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def stack(smol_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("browser"), smol_model, recipe=SHORT) as stack:
        yield stack


@pytest.fixture
def page(stack: Stack, chromium: Chromium) -> Iterator[Page]:
    """A page, signed in by the link that the set-up prints; anything the console calls an error fails the test."""
    PICTURES.mkdir(exist_ok=True)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.connect(chromium.address)
        page = browser.new_context(viewport={"width": 1280, "height": 860}).new_page()
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.on("console", lambda line: broken.append(line.text) if line.type == "error" else None)
        page.goto(stack.manage("sign_in_link").strip().splitlines()[-1])
        page.get_by_role("button", name="Sign in").click()
        yield page
        browser.close()
        assert not broken, "\n".join(broken)


def picture(page: Page, name: str) -> None:
    page.screenshot(path=PICTURES / f"{name}.png", caret="initial")  # hiding the caret is a style the policy forbids


def say(page: Page, text: str) -> None:
    """Send a message and wait until the reply to it is whole."""
    page.wait_for_load_state()  # Enter sends once the page's scripts are there
    turns = page.locator("article.turn").count()
    page.get_by_label("Your message").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator("article.turn")).to_have_count(turns + 1, timeout=30_000)
    expect(page.locator("article.turn").last).not_to_have_class(re.compile("answering"), timeout=120_000)


def say_whole(page: Page) -> Locator:
    """Say things until a reply comes to its own end: one that was cut at its length never teaches. A conversation
    that rambles goes on rambling, so each new try is a new chat."""
    questions = ("Say hello to my friend Anna.", "Name one animal that can fly.", "Good morning!", "Thank you!")
    for question in 2 * questions:
        say(page, question)
        turn = page.locator("article.turn").last
        expect(turn.locator(".chip").first).to_contain_text(re.compile("not taught yet|cut short"))
        if "not taught yet" in turn.locator(".chip").first.inner_text():
            return turn
        page.get_by_role("link", name="New chat", exact=True).click()
    raise AssertionError("eight replies, each in a chat of its own, were cut short")


def guide(page: Page, text: str) -> None:
    """Tell the last reply what to do next time."""
    turn = page.locator("article.turn").last
    turn.get_by_role("button", name="Teach", exact=True).click()
    turn.get_by_label("What should it do next time?").fill(text)
    turn.locator(".guidance-form").get_by_role("button", name="Teach this").click()
    expect(turn.locator(".opener.teach")).to_have_attribute("data-given", "")


def test_a_lesson_is_given_learned_approved_and_undone_by_clicking(stack: Stack, page: Page) -> None:
    # talk: the reply comes by the base, and says so
    first = say_whole(page)
    expect(first.locator(".about .badge").first).to_have_text("talkback@0")

    # a thumb goes up, changes its mind, and is taken back
    up, down = first.get_by_label("Good reply"), first.get_by_label("Bad reply")
    up.click()
    expect(up).to_have_attribute("aria-pressed", "true")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "true")
    expect(up).to_have_attribute("aria-pressed", "false")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "false")

    # correct: the chip moves by itself until the reply waits in a batch
    guide(page, GUIDANCE)
    expect(first.locator(".chip").first).to_contain_text(re.compile("lesson", re.I), timeout=60_000)
    for _ in range(2):
        say_whole(page)
        guide(page, GUIDANCE)
    expect(page.locator("article.turn").last.locator(".chip").first).to_contain_text("3 of 16", timeout=60_000)
    picture(page, "chat")

    # learn now: the console shows the batch, the run and the gate, and then asks
    page.goto(f"{stack.url}/console/")
    expect(page.locator("#board-headline")).to_contain_text("of 16")
    picture(page, "console-batch")
    page.locator("#welcome-learn").click()  # a new installation: the welcome stands
    expect(page.locator("#board-stations")).to_contain_text("run 1", timeout=60_000)
    page.goto(f"{stack.url}/console/")
    call = page.get_by_role("link", name="See what changed")
    expect(call.first).to_be_visible(timeout=300_000)
    page.goto(f"{stack.url}/console/checkpoints/1/")
    expect(page.locator("#call")).to_contain_text("It passed the gate", timeout=300_000)
    picture(page, "candidate")

    # approve: the next reply is by the new weights, and says so
    page.locator("#approve").click()
    expect(page.locator("#call")).to_contain_text("It writes every new reply", timeout=60_000)
    page.goto(stack.url)
    say(page, "Name one animal that can swim.")
    expect(page.locator("article.turn").last.locator(".about .badge").first).to_have_text("talkback@1")
    picture(page, "chat-after")

    # undo: one click, and the base writes the next one
    page.goto(f"{stack.url}/console/")
    page.locator("#roll-back").click()
    expect(page.locator("#to-live")).to_have_text("talkback@0", timeout=30_000)
    picture(page, "console")
    page.goto(stack.url)
    say(page, "Name one animal that can run.")
    expect(page.locator("article.turn").last.locator(".about .badge").first).to_have_text("talkback@0")


def test_a_reply_can_be_stopped_and_two_tabs_see_the_same_words(stack: Stack, page: Page) -> None:
    page.goto(f"{stack.url}/")
    page.get_by_role("link", name="New chat", exact=True).click()
    say(page, "Say hello.")
    other = page.context.new_page()
    other.goto(page.url)

    page.get_by_label("Your message").fill("Write a very long story about a ship.")
    page.keyboard.press("Enter")
    expect(other.locator("article.turn.answering .prose").last).to_contain_text(re.compile(r"\w{2}"), timeout=60_000)
    page.keyboard.press("Escape")
    expect(page.locator("article.turn.answering")).to_have_count(0, timeout=30_000)
    expect(other.locator("article.turn.answering")).to_have_count(0, timeout=30_000)
    assert (
        page.locator("article.turn .prose").last.inner_text() == other.locator("article.turn .prose").last.inner_text()
    )
