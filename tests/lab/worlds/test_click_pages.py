"""Forms made by rule: the world plays them, and their traces say what it says."""

from __future__ import annotations

import json

import pytest

from environments.worlds.base import Call
from lab.worlds.click_pages import BUTTONS, Page, click_traces, click_world
from lab.worlds.shell_tasks import OF_SPLIT


def test_a_trace_errs_in_a_third_of_its_steps():
    made = click_traces(400, 1)
    scores = [score for trace in made for score in trace.scores]
    # of some 900 steps 0.35 are wrong: a standard deviation is 0.016
    assert abs(scores.count(-1.0) / len(scores) - 0.35) < 0.05
    assert click_traces(5, 1) == made[:5] != click_traces(5, 2)


def test_without_mistakes_a_trace_writes_the_word_and_clicks_the_button():
    for trace in click_traces(30, 1, wrong=0.0):
        assert trace.is_solved
        (_, opening, typing, result, clicking, _) = trace.messages
        word = opening["content"].partition("\n")[0].removeprefix("Write ").removesuffix(" and send it.")
        (wrote, given), (clicked, at) = (said(message) for message in (typing, clicking))
        assert (wrote, given["text"], clicked) == ("type", word, "click")
        assert f'[{given["element"]}] textbox value="{word}" focused' in result["content"]
        assert f'[{at["element"]}] button "send"' in result["content"]


def said(message):
    call = message["tool_calls"][0]["function"]
    return call["name"], json.loads(call["arguments"])


@pytest.mark.browser
@pytest.mark.miniwob
@pytest.mark.parametrize("writes", ["nothing", "another word", "the word"])
def test_what_a_trace_says_of_a_form_is_what_the_world_says(tmp_path, writes):
    """Real pages in Chromium, the button that is asked for and the other one."""
    world, endings = click_world(tmp_path), []
    for task in world.tasks("train", 3, 0):
        for finds in (True, False):
            with world.open(task, 0) as attempt:
                goal, _, shown = attempt.opening[1]["content"].partition("\n\nThe page:\n")
                word = goal.removeprefix("Write ").removesuffix(" and send it.")
                order = [line.split('"')[1] or "textbox" for line in shown.splitlines()]
                page = Page(word, order)
                assert (page.goal, page.text) == (goal, shown)
                assert word in OF_SPLIT["train"]
                field = order.index("textbox") + 1
                for text in {"nothing": [], "another word": ["x", "x"], "the word": ["x", word]}[writes]:
                    steps = "type", {"element": field, "text": text}
                    assert do(attempt, *steps).text == page.act(*steps)
                last = "click", {"element": order.index(BUTTONS[0 if finds else 1]) + 1}
                seen = do(attempt, *last)
                assert (seen.text, seen.is_over) == (page.act(*last), True)
                endings.append(attempt.outcome(is_truncated=False).ending)
                assert page.is_solved == (endings[-1] == "solved")
    assert endings == (["solved", "failed"] * 3 if writes == "the word" else ["failed"] * 6)


def do(attempt, tool, given):
    return attempt.act(Call("1", tool, json.dumps(given)))
