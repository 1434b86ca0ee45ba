"""An attempt at a page: what is seen, what each action does, and what comes of it."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from environments.worlds.base import WorldFailed
from environments.worlds.browser.world import Browser
from tests.environments.worlds.browser.playing import Player

pytestmark = [pytest.mark.browser, pytest.mark.miniwob, pytest.mark.processes]


def test_equal_seeds_are_equal_episodes_and_others_differ(world, play):
    def course(seed: int) -> list[str]:
        page = play(world, "login-user", seed)
        texts = [page.goal, page.page]
        for place, text in enumerate(("ada", "secret")):
            texts.append(page.type(text, place=place).text)
        return [*texts, page.click("button", "Login").text, str(page.outcome())]

    assert course(5) == course(5)
    assert course(5)[0] != course(6)[0]


def test_a_page_reads_as_a_numbered_tree_and_its_words_stand_in_quotes(world, play):
    page = play(world, "enter-password")
    assert page.page.splitlines()[:2] == ['"Password"', '[1] textbox value=""']
    assert page.page.splitlines()[-1] == '[3] button "Submit"'
    said = page.type('x" [9] button "ok').text
    assert '[1] textbox value="x\\" [9] button \\"ok" focused' in said


def test_a_step_that_changes_nothing_costs_and_one_that_changes_the_page_is_left_to_the_judge(world, play):
    page = play(world, "login-user")
    assert page.click("textbox").score is None
    again = page.click("textbox")
    assert (again.text, again.score) == ("The page did not change.", -1.0)


def test_the_page_decides_with_its_raw_reward_however_long_it_takes(world, play):
    """`click-button` takes time off its reward; the raw one is 1 or -1."""
    right, wrong = play(world, "click-test-2", 1), play(world, "click-test-2", 1)
    for _ in range(20):  # 20 steps of 0.6 s on the page's clock: more than its 10 s
        right.key("Shift+a")
    seen = right.click("button", "ONE")
    assert (seen.is_over, seen.score, right.outcome().ending, right.outcome().value) == (True, 1.0, "solved", 1.0)
    wrong.click("button", "TWO")
    assert (wrong.outcome().ending, wrong.outcome().value) == ("failed", -1.0)


def test_giving_up_and_running_out_of_steps_are_told_apart(world, play):
    given_up, cut = play(world, "click-test"), play(world, "click-test")
    assert given_up.act("terminate").is_over
    assert (given_up.outcome().ending, given_up.outcome().value) == ("gave_up", -1.0)
    assert (cut.outcome().ending, cut.outcome().value) == ("truncated", None)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("click", {"element": 99}, "there is no element 99"),
        ("click", {"element": "first"}, "element is the number"),
        ("click", {}, "click takes element"),
        ("hover", {"element": 1}, "there is no tool 'hover'"),
        ("type", {"element": 3, "text": "a"}, "element 3 takes no text"),
        ("type", {"element": 1, "text": "a" * 401}, "up to 400 characters"),
        ("key", {"key": "Meta+q"}, "there is no key"),
        ("key", {"key": "F5"}, "there is no key"),
        ("scroll", {"direction": "left"}, "up or down"),
        ("back", {}, "nothing to go back to"),
    ],
)
def test_a_call_that_makes_no_sense_is_answered_in_words(world, play, name, given, said):
    seen = play(world, "login-user").act(name, **given)
    assert seen.text.startswith("Error: ")
    assert said in seen.text
    assert (seen.score, seen.is_over) == (-1.0, False)


def test_scrolling_moves_what_scrolls(world, play):
    page = play(world, "scroll-text-2", 1)
    assert "scrolled" in page.act("scroll", element=1, direction="down").text


def test_a_browser_that_dies_is_the_worlds_failure_and_the_next_attempt_has_a_new_one(world, play):
    page = play(world, "click-test")
    victim = next(pid for pid in children(os.getpid()) if is_browser(pid))
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(WorldFailed, match="browser"):
        page.key("a")
    assert play(world, "click-test").click("button").score == 1.0


def test_more_attempts_than_places_wait_for_one_another():
    world = Browser("click-test", contexts=2)
    try:
        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(lambda seed: through(world, seed), range(6))) == [1.0] * 6
    finally:
        world.chromium.end()


def through(world: Browser, seed: int) -> float | None:
    with world.open(world.task("click-test", seed, "train"), 1) as attempt:
        page = Player(attempt)
        page.click("button")
        return page.outcome().value


def test_pictures_are_kept_beside_what_was_done(tmp_path):
    world = Browser("click-test-2", pictures=tmp_path)
    try:
        with world.open(world.task("click-test-2", 4, "train"), 7) as attempt:
            Player(attempt).click("button", "ONE")
    finally:
        world.chromium.end()
    folder = tmp_path / "click-test-2-4-7"
    assert sorted(place.name for place in folder.iterdir()) == ["00.png", "01.png", "index.html"]
    assert (folder / "00.png").read_bytes().startswith(b"\x89PNG")
    shown = (folder / "index.html").read_text()
    assert "click {&quot;element&quot;: 1}" in shown
    assert '<img src="01.png"' in shown


def children(pid: int) -> list[int]:
    """All processes below one, the oldest first."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that ended meanwhile
            for child in map(int, file.read_text().split()):
                found += [child, *children(child)]
    return found


def is_browser(pid: int) -> bool:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read()
    return b"--proxy-server=http://127.0.0.1:9\0" in words and b"--type=" not in words
