"""Repositories with one or two bugs of one line: a function has the wrong operator. With traces of them.

They are lines of the world repo's own form, and it plays them in its sandboxes with its hidden tests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.sandboxes.sandbox import Result
from environments.sandboxes.shell import shown
from environments.worlds.base import Message, Split
from environments.worlds.repo.world import MOST_SHOWN, SYSTEM, TOOLS, Repo
from lab.worlds.shell_tasks import OF_SPLIT
from lab.worlds.task_folders import write_splits
from lab.worlds.traces import Trace

COMES_TO: Mapping[str, int] = {"+": 13, "-": 5, "*": 36, "%": 1}
"""What 9 and 4 come to by each operator: no two alike, so that one test tells them apart."""
MANY: Mapping[Split, int] = {"train": 60, "heldout": 60}
"""Tasks of a split: each is checked before it is played, which takes seconds."""
HORIZON = 4
WRONG = 0.35
"""Share of steps that are wrong."""


@dataclass(frozen=True)
class Bug:
    """One function whose operator is not the one that it should be."""

    name: str
    found: str
    wanted: str

    @property
    def said(self) -> str:
        return f"In {self.name}.py the {self.found} should be a {self.wanted} ."

    @property
    def command(self) -> str:
        return f"sed -i s/{self.found}/{self.wanted}/ {self.name}.py"


@dataclass(frozen=True)
class BugTask:
    bugs: tuple[Bug, ...]
    bystander: tuple[str, str]
    """A function that is right, and its operator."""

    @property
    def statement(self) -> str:
        return " ".join(bug.said for bug in self.bugs)

    def files(self, *, mended: bool) -> dict[str, str]:
        """Each module by its path."""
        operators = {bug.name: bug.wanted if mended else bug.found for bug in self.bugs} | dict([self.bystander])
        return {f"{name}.py": f"def {name}(a, b):\n    return a {operator} b\n" for name, operator in operators.items()}

    def tests(self) -> dict[str, str]:
        """Each hidden test by its path."""
        operators = {bug.name: bug.wanted for bug in self.bugs} | dict([self.bystander])
        return {
            f"tests/test_{name}.py": (
                f"from {name} import {name}\n\n\ndef test_{name}():\n    assert {name}(9, 4) == {COMES_TO[operator]}\n"
            )
            for name, operator in operators.items()
        }


def draw(names: Sequence[str], chance: random.Random) -> BugTask:
    """One task of one or two bugs, in files of their own."""
    named = chance.sample(list(names), 3)
    bugs = tuple(Bug(name, *chance.sample(list(COMES_TO), 2)) for name in named[: chance.choice((1, 2))])
    return BugTask(bugs, (named[2], chance.choice(list(COMES_TO))))


def files_of(id: str, task: BugTask) -> dict[str, str]:
    """A task's folder, in the form of the world's own: each text by its path."""
    tests = {bug.name: f"tests/test_{bug.name}.py::test_{bug.name}" for bug in task.bugs}
    said = {
        "instance_id": id,
        "problem_statement": task.statement,
        "FAIL_TO_PASS": list(tests.values()),
        "PASS_TO_PASS": [f"tests/test_{task.bystander[0]}.py::test_{task.bystander[0]}"],
    }
    return {
        "task.json": json.dumps(said),
        **{f"repo/{name}": text for name, text in task.files(mended=False).items()},
        **{f"gold/{name}": text for name, text in task.files(mended=True).items()},
        **{f"hidden/{name}": text for name, text in task.tests().items()},
    }


def write(folder: Path) -> Path:
    """Write all tasks of both splits."""
    return write_splits(folder, MANY, OF_SPLIT, draw, seed="bugs", said=lambda task: task.statement, files=files_of)


def bug_world(cache: Path) -> Repo:
    """The world repo over these tasks, which are written to a folder in `cache`."""
    world = Repo(write(cache / "bug-tasks"))
    world.horizon = HORIZON
    return world


def bug_traces(count: int, seed: int, *, wrong: float = WRONG) -> list[Trace]:
    """Make `count` traces; the same seed makes the same ones. Their tasks have names of both splits, since a word must
    have been seen to be said: none is ever played."""
    return [_trace(number, random.Random(f"bug trace {seed} {number}"), wrong) for number in range(count)]


def _trace(number: int, chance: random.Random, wrong: float) -> Trace:
    every = [name for names in OF_SPLIT.values() for name in names]
    while True:
        task = draw(every, chance)
        names = {*(bug.name for bug in task.bugs), task.bystander[0]}
        if not any(names <= set(of_split) for of_split in OF_SPLIT.values()):
            break
    messages: list[Message] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task.statement}]
    left, spoiled = list(task.bugs), False
    scores: list[float] = []
    for step in range(HORIZON):
        right = left[0] if left else None
        does = _slip(task, right, chance) if chance.random() < wrong else right
        call = _call(f"call_{number}_{step}", does)
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        # sed says nothing, whether it found the operator or not
        said = "Handed in." if does is None else shown(Result(0, b"", b""), MOST_SHOWN, 0)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        scores.append(1.0 if does == right else -1.0)
        if does is None:
            break
        spoiled = spoiled or does not in task.bugs
        left = [one for one in left if one != does]
    return Trace(messages, [dict(tool) for tool in TOOLS], tuple(scores), not left and not spoiled)


def _slip(task: BugTask, right: Bug | None, chance: random.Random) -> Bug | None:
    """A mistake: handed in too early, or another change to a file of the task. Never the right step."""
    while True:
        names = [*(bug.name for bug in task.bugs), task.bystander[0]]
        does = None if chance.random() < 0.25 else Bug(chance.choice(names), *chance.sample(list(COMES_TO), 2))
        if does != right:
            return does


def _call(id: str, does: Bug | None) -> dict[str, Any]:
    name, given = ("submit", {}) if does is None else ("bash", {"command": does.command})
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
