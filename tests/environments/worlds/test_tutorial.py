"""The tutorial's own world and line are as it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from environments.worlds.base import Call
from environments.worlds.choosing import open_world
from environments.worlds.problems import read_line

PAGE = (Path(__file__).parents[3] / "docs" / "tutorials" / "train-an-agent.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)[0]


def guess(n: object) -> Call:
    return Call("c", "guess", json.dumps({"n": n}))


@pytest.fixture
def world(tmp_path, monkeypatch):
    (tmp_path / "my_worlds.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return open_world("my_worlds:Guess")


def test_the_world_of_the_tutorial_is_played(world):
    (task,) = world.tasks("train", 1, seed=1)
    number = task.data["number"]
    with world.open(task, 1) as attempt:
        said = [attempt.act(guess(n)) for n in (number - 1, number + 1, "x", number)]
        assert [one.text for one in said] == ["Higher.", "Lower.", "Call guess with a whole number.", "Found."]
        assert [(one.score, one.is_over) for one in said] == [(None, False), (None, False), (-1.0, False), (None, True)]
        assert attempt.outcome(is_truncated=False).ending == "solved"
    numbers = {split: {one.id for one in world.tasks(split, 32, seed=1)} for split in ("train", "heldout")}
    assert len(world.tasks("heldout", 48, seed=1)) == 32  # the gate may ask for more than there are
    assert (len(numbers["train"] | numbers["heldout"]), numbers["train"] & numbers["heldout"]) == (64, set())


def test_the_line_of_the_tutorial_is_read():
    problem = read_line(block("json"))[1]
    primes = [n for n in range(2, 1000) if all(n % d for d in range(2, n))]
    assert problem.answer == str(len(primes)) == "168"
