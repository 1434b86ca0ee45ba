"""Traces: what the world says of them, and that none of their tasks is ever played."""

from __future__ import annotations

import json

import pytest

from environments.worlds.base import Call
from environments.worlds.till import ITEMS, MANY, Till
from lab.worlds.small_model import MANNER, NAMES
from lab.worlds.traces import Manner, as_text, traces


@pytest.fixture(scope="module")
def made():
    return traces(600, 1)


def test_a_quarter_of_the_steps_is_wrong_on_purpose(made):
    scores = [score for trace in made for score in trace.scores]
    wrong = scores.count(-1.0) / len(scores)
    assert set(scores) == {-1.0, 1.0}
    assert abs(wrong - 0.25) < 0.025  # over 3,000 coins of 1/4: a standard deviation is 0.008
    assert all(trace.is_solved and set(trace.scores) == {1.0} for trace in traces(50, 1, manner=Manner(wrong=0.0)))


def test_it_goes_on_after_a_wrong_step_and_may_still_solve(made):
    assert any(trace.is_solved and -1.0 in trace.scores for trace in made)
    assert all(
        len(trace.scores) == 6 for trace in traces(50, 1, manner=Manner(wrong=0.0))
    )  # three prices, two sums, the answer


def test_traces_are_what_the_world_says_to_these_calls(made):
    for trace in made[:50]:
        numbers = {
            json.loads(call["function"]["arguments"])["item"]: result["content"]
            for said, result in zip(trace.messages[2::2], trace.messages[3::2], strict=True)
            for call in said["tool_calls"]
            if call["function"]["name"] == "price"
        }
        names = trace.messages[1]["content"].removeprefix("What do these cost together: ").removesuffix("?").split(", ")
        prices = {name: int(numbers.get(name, 0)) for name in names}
        assert all(numbers[name].startswith("Error") for name in numbers.keys() - prices.keys())
        if not prices.keys() <= numbers.keys():
            continue  # it never learned what all cost
        task = Till().task("train", 0)
        with Till().open(type(task)("till", "x", "train", {"prices": prices}), 0) as again:
            for said, result in zip(trace.messages[2::2], trace.messages[3::2], strict=True):
                assert again.act(Call.of(said["tool_calls"][0])).text == result["content"]


def test_items_of_both_splits_are_seen_and_the_same_seed_makes_the_same(made):
    text = as_text(made)
    assert all(item in text for items in ITEMS.values() for item in items)
    assert text == as_text(traces(600, 1)) != as_text(traces(600, 2))


def test_no_task_of_a_trace_can_be_played(monkeypatch):
    numbers = []
    of_number = Till.task

    def noted(world, split, number):
        numbers.append(number)
        return of_number(world, split, number)

    monkeypatch.setattr(Till, "task", noted)
    traces(200, 3)
    made = set(numbers)
    numbers.clear()
    for split in ITEMS:
        Till().tasks(split, 5000, 3)
    assert min(made) >= MANY > max(numbers)


def test_traces_of_names_hold_no_item_of_the_world_and_no_mistake_invents_a_word_or_a_number():
    made = traces(200, 1, manner=MANNER)
    assert not set(NAMES) & {item for items in ITEMS.values() for item in items}
    assert any(-1.0 in trace.scores for trace in made)
    for trace in made:
        seen = trace.messages[1]["content"]
        for said, result in zip(trace.messages[2::2], trace.messages[3::2], strict=True):
            arguments = json.loads(said["tool_calls"][0]["function"]["arguments"]).values()
            assert all(str(value) in seen for value in arguments), (seen, arguments)
            seen += f" {result['content']}"
