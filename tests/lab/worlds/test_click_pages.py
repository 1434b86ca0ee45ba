"""Pages with buttons made by rule: the world plays them, and their traces say what it says."""

from __future__ import annotations

import json
import random

import pytest

from environments.worlds.base import Call
from lab.worlds.click_pages import BUTTONS, Page, click_traces, click_world
from lab.worlds.shell_tasks import OF_SPLIT


def test_a_trace_errs_in_half_of_its_clicks_and_its_page_is_none_that_is_played():
    made = click_traces(400, 1)
    scores = [score for trace in made for score in trace.scores]
    # of some 500 clicks 0.45 are wrong: a standard deviation is 0.022
    assert abs(scores.count(-1.0) / len(scores) - 0.45) < 0.07
    for trace in made:
        names = {line.split('"')[1] for line in trace.messages[1]["content"].splitlines() if line.startswith("[")}
        assert len(names) == BUTTONS
        assert not any(names <= set(of_split) for of_split in OF_SPLIT.values())
    assert click_traces(5, 1) == made[:5] != click_traces(5, 2)


def test_without_mistakes_a_trace_clicks_what_is_asked_for():
    for trace in click_traces(30, 1, wrong=0.0):
        assert trace.is_solved
        clicked, page = [], trace.messages[1]["content"]
        for call, result in zip(trace.messages[2::2], trace.messages[3::2], strict=True):
            number = json.loads(call["tool_calls"][0]["function"]["arguments"])["element"]
            clicked += [line.split('"')[1] for line in page.splitlines() if line.startswith(f"[{number}]")]
            page = result["content"]
        assert " ".join(f"Click {name}." for name in clicked) == trace.messages[1]["content"].partition("\n")[0]


@pytest.mark.browser
@pytest.mark.miniwob
def test_what_a_trace_says_of_a_page_is_what_the_world_says(tmp_path):
    """Real pages in Chromium: the first button each time, and once the right ones."""
    world, endings = click_world(tmp_path), []
    for task in world.tasks("train", 6, 0):
        for finds in (False, True):
            with world.open(task, 0) as attempt:
                goal, _, shown = attempt.opening[1]["content"].partition("\n\nThe page:\n")
                page = Page(
                    [said.removeprefix("Click ").strip(".") for said in goal.split(". ")],
                    [line.split('"')[1] for line in shown.splitlines()],
                )
                assert (page.goal, page.text) == (goal, shown)
                assert set(page.buttons) <= set(OF_SPLIT["train"])
                is_over = False
                while not is_over:
                    number = page.buttons.index(page.asked[0]) + 1 if finds else random.Random(0).randint(1, 4)
                    seen = attempt.act(Call("1", "click", json.dumps({"element": number})))
                    assert seen.text == page.click(number)
                    is_over = seen.is_over
                endings.append((finds, attempt.outcome(is_truncated=False).ending))
    assert [ending for finds, ending in endings if finds] == ["solved"] * 6
    assert "failed" in [ending for finds, ending in endings if not finds]
