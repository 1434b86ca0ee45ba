"""Shell tasks made by rule: their folders can be played, and their traces say what bash says."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from environments.worlds.base import Call
from lab.worlds.shell_tasks import MANY, OF_SPLIT, Chore, ShellTask, draw, shell_world, write
from lab.worlds.shell_traces import Files, shell_traces


@pytest.fixture(scope="module")
def made():
    return shell_traces(400, 1)


def said(message):
    call = message["tool_calls"][0]["function"]
    return call["name"], json.loads(call["arguments"]).get("command", "")


def test_a_chore_is_a_sentence_a_command_and_a_check():
    chore = Chore("mv", ("egg", "fork"))
    assert (chore.said, chore.command, chore.found) == ("Rename egg to fork.", "mv egg fork", ("egg",))
    task = ShellTask((chore, Chore("mkdir", ("hat",))), "jar")
    assert (task.instruction, task.files) == ("Rename egg to fork. Make the folder hat.", ("egg", "jar"))


def test_each_split_has_its_tasks_and_names_of_its_own(tmp_path: Path):
    write(tmp_path)
    words = {}
    for split, names in OF_SPLIT.items():
        asked = [(place / "instruction.md").read_text() for place in sorted((tmp_path / split).iterdir())]
        assert len(set(asked)) == len(asked) == MANY[split]
        words[split] = {word.strip(".") for text in asked for word in text.split()}
        assert words[split] & set(names) == set(names)
    shared = words["train"] & words["heldout"]
    assert shared == {"Copy", "Delete", "Make", "Rename", "folder", "the", "to"}


def test_a_trace_errs_in_a_third_of_its_steps_and_its_task_is_none_that_is_played(made):
    scores = [score for trace in made for score in trace.scores]
    # of 900 steps 0.35 are wrong: a standard deviation is 0.016
    assert abs(scores.count(-1.0) / len(scores) - 0.35) < 0.05
    every = {name for names in OF_SPLIT.values() for name in names}
    for trace in made:
        names = set(trace.messages[1]["content"].replace(".", "").split()) & every
        assert len(names) == 1 or not any(names <= set(of_split) for of_split in OF_SPLIT.values())
    assert shell_traces(5, 1) == made[:5] != shell_traces(5, 2)


def test_without_mistakes_a_trace_is_the_chores_in_their_order_and_done():
    for trace in shell_traces(30, 1, wrong=0.0):
        assert trace.is_solved
        calls = [said(message) for message in trace.messages[2::2]]
        assert calls[-1] == ("done", "")
        assert all(text == "Exit code: 0" for text in (message["content"] for message in trace.messages[3:-1:2]))


@pytest.mark.bubblewrap
def test_what_a_trace_prints_is_what_bash_prints(made, tmp_path: Path):
    """The files of a task are written by the expert's own rule, and every result compared."""
    from environments.sandboxes.choosing import open_sandbox
    from environments.sandboxes.sandbox import MIB, Wants
    from environments.sandboxes.shell import shown

    compared = set()
    with open_sandbox(Wants(memory=64 * MIB, disk=4 * MIB, processes=16)) as sandbox:
        for seed in range(60):
            chance = random.Random(seed)
            task = draw(OF_SPLIT["train"], chance)
            files = Files({name: name for name in task.files})
            sandbox.run(
                ["sh", "-c", f"rm -rf /box/* && for n in {' '.join(task.files)}; do echo $n > $n; done"], timeout_s=10
            )
            names = [*task.files, *(name for chore in task.chores for name in chore.names)]
            for _ in range(4):
                verb = chance.choice(("rm", "cp", "mv", "mkdir"))
                one, other = chance.sample(sorted(set(names)), 2)
                if verb in ("cp", "mv") and one in files.folders:
                    continue
                chore = Chore(verb, (one, other) if verb in ("cp", "mv") else (one,))
                real = sandbox.run(["bash", "-c", f"{chore.command} 2>&1"], timeout_s=10, env={"LC_ALL": "C"})
                printed = files.run(chore)
                assert real.out.decode() == (f"{printed}\n" if printed else ""), chore
                assert shown(real, 4000, 0).endswith(f"Exit code: {1 if printed else 0}")
                compared.add((verb, bool(printed)))
    assert len(compared) == 8  # each command fails somewhere, and works somewhere


@pytest.mark.bubblewrap
def test_a_task_is_solved_by_its_commands_and_by_half_of_them_in_part(tmp_path: Path):
    world = shell_world(tmp_path)
    task = next(one for one in world.tasks("train", 8, 1) if _commands(one).count("\n") == 2)
    first, second = _commands(task).splitlines()
    for commands, value in (([first, second], 1.0), ([first], pytest.approx(1 / 3))):  # 2 of 3 checks: 2 · 2/3 − 1
        with world.open(task, 0) as attempt:
            for number, command in enumerate(commands):
                attempt.act(Call(str(number), "bash", json.dumps({"command": command})))
            assert attempt.act(Call("9", "done", "{}")).is_over
            assert attempt.outcome(is_truncated=False).value == value


def _commands(task):
    return Path(task.data["path"], "solution", "solve.sh").read_text().partition("set -e\n")[2]
