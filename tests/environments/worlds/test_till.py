"""The world till: what it draws, what its calls come to, and what its rule says of each."""

from __future__ import annotations

import json

import pytest

from environments.worlds.base import Call, Outcome
from environments.worlds.till import ITEMS, Till, TillAttempt


def call(name: str, **arguments: object) -> Call:
    return Call("call_1", name, json.dumps(arguments))


@pytest.fixture
def attempt() -> TillAttempt:
    return TillAttempt({"egg": 3, "hat": 4, "ink": 5})


def test_shortest_way_scores_at_each_step_and_solves(attempt):
    steps = [
        *(call("price", item=item) for item in ("egg", "hat", "ink")),
        call("add", a=3, b=4),
        call("add", a=7, b=5),
        call("answer", value=12),
    ]
    seen = [attempt.act(step) for step in steps]
    assert [one.text for one in seen] == ["3", "4", "5", "7", "12", "Done."]
    assert [one.score for one in seen] == [1.0] * 6
    assert [one.is_over for one in seen] == [False] * 5 + [True]
    assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, {"right": True, "prices known": 1.0})


@pytest.mark.parametrize(
    "step",
    [
        call("price", item="egg"),  # known already
        call("price", item="ship"),
        call("add", a=3, b=3),  # one price twice
        call("add", a=8, b=9),  # neither is known
        call("add", a=3),
        call("add", a="three", b=4),
        call("add", a=10**12, b=1),
        call("steal", item="egg"),
        Call("call_1", "add", "3 4"),
        call("answer", value=3),
    ],
)
def test_step_that_brings_nothing_nearer_scores_minus_one(attempt, step):
    attempt.act(call("price", item="egg"))
    assert attempt.act(step).score == -1.0


def test_words_and_a_wrong_answer_fail(attempt):
    assert attempt.hear("Twelve.").score == -1.0
    attempt.act(call("answer", value=11))
    assert attempt.outcome(is_truncated=False) == Outcome("failed", -1.0, {"right": False, "prices known": 0.0})


def test_truncated_attempt_has_no_value(attempt):
    attempt.act(call("price", item="egg"))
    outcome = attempt.outcome(is_truncated=True)
    assert (outcome.ending, outcome.value) == ("truncated", None)
    assert outcome.checks["prices known"] == pytest.approx(1 / 3)


def test_splits_share_no_item_and_an_id_is_one_task():
    assert not set(ITEMS["train"]) & set(ITEMS["heldout"])
    world = Till()
    drawn = {split: world.tasks(split, 50, seed=1) for split in ("train", "heldout")}
    for split, tasks in drawn.items():
        assert len({task.id for task in tasks}) == 50
        assert all(set(task.data["prices"]) <= set(ITEMS[split]) for task in tasks)
        number = int(tasks[0].id.rsplit("-", 1)[1])
        assert world.task(split, number) == tasks[0]
    assert world.tasks("train", 50, seed=1) == drawn["train"] != world.tasks("train", 50, seed=2)
