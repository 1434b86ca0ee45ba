"""Repositories with bugs of one line, made by rule: they can be played, and their traces are what bash does."""

from __future__ import annotations

import json
import random

import pytest

from environments.worlds.base import Call
from lab.worlds.bug_tasks import COMES_TO, MANY, Bug, BugTask, bug_traces, bug_world, draw, write
from lab.worlds.shell_tasks import OF_SPLIT

TASK = BugTask((Bug("egg", "-", "+"), Bug("jar", "%", "*")), ("hat", "-"))


def test_a_bug_is_a_sentence_and_a_command_and_one_test_tells_operators_apart():
    assert TASK.statement == "In egg.py the - should be a + . In jar.py the % should be a * ."
    assert TASK.bugs[1].command == "sed -i s/%/*/ jar.py"
    assert TASK.files(mended=False)["jar.py"] == "def jar(a, b):\n    return a % b\n"
    assert TASK.files(mended=True)["hat.py"] == "def hat(a, b):\n    return a - b\n"
    assert {sign: eval(f"9 {sign} 4") for sign in COMES_TO} == COMES_TO


def test_each_split_has_its_tasks_and_names_of_its_own(tmp_path):
    write(tmp_path)
    for split, names in OF_SPLIT.items():
        places = sorted((tmp_path / split).iterdir())
        said = [json.loads((place / "task.json").read_text())["problem_statement"] for place in places]
        assert len(set(said)) == MANY[split]
        files = {file.stem for place in places for file in (place / "repo").iterdir()}
        assert files <= set(names)


def test_a_trace_errs_in_a_third_of_its_steps_and_its_task_is_none_that_is_played():
    made = bug_traces(400, 1)
    scores = [score for trace in made for score in trace.scores]
    # of some 900 steps 0.35 are wrong: a standard deviation is 0.016
    assert abs(scores.count(-1.0) / len(scores) - 0.35) < 0.05
    assert bug_traces(5, 1) == made[:5] != bug_traces(5, 2)
    for trace in bug_traces(30, 1, wrong=0.0):
        assert trace.is_solved
        assert trace.messages[-2]["tool_calls"][0]["function"]["name"] == "submit"


@pytest.mark.bubblewrap
def test_a_bug_is_mended_by_its_command_and_another_file_is_not_to_be_touched(tmp_path):
    world = bug_world(tmp_path)
    task = next(one for one in world.tasks("train", 6, 0) if len(statement_of(one, tmp_path).split(" . ")) == 2)
    chance = random.Random("bugs train")
    drawn = {one.statement: one for one in (draw(OF_SPLIT["train"], chance) for _ in range(400))}
    made = drawn[statement_of(task, tmp_path)]
    first, second = (bug.command for bug in made.bugs)
    spoils = f"sed -i s/{made.bystander[1]}/x/ {made.bystander[0]}.py"
    # three tests: of both bugs, and of the file beside them. 2p - 1 at 3, 2 and 2 of 3
    for commands, value in (([first, second], 1.0), ([first], 1 / 3), ([first, second, spoils], 1 / 3)):
        with world.open(task, 0) as attempt:
            for number, command in enumerate(commands):
                seen = attempt.act(Call(str(number), "bash", json.dumps({"command": command})))
                assert seen.text == "Exit code: 0"
            assert attempt.act(Call("9", "submit", "{}")).text == "Handed in."
            assert attempt.outcome(is_truncated=False).value == pytest.approx(value)


def statement_of(task, folder):
    place = folder / "bug-tasks" / task.split / task.id / "task.json"
    return json.loads(place.read_text())["problem_statement"]
