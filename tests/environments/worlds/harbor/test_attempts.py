"""Attempts at terminal tasks: what is drawn, what calls come to, and the outcome."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from environments.errors import Unplayable
from environments.sandboxes.verifier import Score
from environments.worlds.base import Call, Outcome, WorldFailed
from environments.worlds.harbor.verdicts import outcome_of
from environments.worlds.harbor.world import Harbor
from tests.environments.worlds.harbor.made import DOCKERFILE, DONE, REWARD, TOML, bash, prepared, reason, task, write

pytestmark = pytest.mark.bubblewrap

SHARES = f"""
total=0 passed=0
check() {{
  total=$((total + 1))
  if [ -e "$1" ]; then passed=$((passed + 1)); else printf 'not '; fi
  echo "ok $total - $1 is there"
}}
for each in a b c d; do check $each; done
python3 -I -c "print($passed / $total)" > {REWARD}
"""
"""Four files in the task's folder are four checks."""


def opened(folder: Path, **more):
    world = Harbor(folder, "bubblewrap", **more)
    (drawn,) = world.tasks("train", 1, 0)
    return world.open(drawn, 0)


def only_train(tmp_path: Path, **files: str) -> Path:
    task(tmp_path / "tasks" / "train" / "one", files.pop("toml", TOML), **files)
    return tmp_path / "tasks"


def test_the_oracles_way_is_solved(tmp_path):
    with opened(only_train(tmp_path)) as attempt:
        assert [message["role"] for message in attempt.opening] == ["system", "user"]
        assert attempt.opening[1]["content"] == "Write the word right to /app/answer.txt."
        assert {tool["function"]["name"] for tool in attempt.tools} == {"bash", "done"}
        seen = attempt.act(bash("echo right > answer.txt; cat answer.txt"))
        assert (seen.text, seen.score, seen.is_over) == ("Output:\nright\nExit code: 0", None, False)
        assert attempt.act(DONE).is_over
        assert attempt.outcome(is_truncated=False) == Outcome("solved", 1.0, {"share": 1.0})


def test_the_outcome_is_twice_the_share_of_checks_less_one(tmp_path):
    # 3 of 4 checks: 2 * 0.75 - 1 = 0.5.
    with opened(only_train(tmp_path, test=SHARES, solve="touch a b c d")) as attempt:
        attempt.act(bash("touch a b d"))
        attempt.act(DONE)
        checks = {"a is there": True, "b is there": True, "c is there": False, "d is there": True}
        assert attempt.outcome(is_truncated=False) == Outcome("failed", 0.5, {"share": 0.75, **checks})


def test_an_attempt_that_is_cut_off_is_scored_as_it_stands(tmp_path):
    with opened(only_train(tmp_path, test=SHARES, solve="touch a b c d")) as attempt:
        attempt.act(bash("touch a"))
        outcome = attempt.outcome(is_truncated=True)
    assert (outcome.ending, outcome.value) == ("truncated", -0.5)  # 2 * 1/4 - 1


def test_nothing_done_has_failed(tmp_path):
    with opened(only_train(tmp_path)) as attempt:
        attempt.act(DONE)
        assert attempt.outcome(is_truncated=False).value == -1.0


@pytest.mark.parametrize(
    "call",
    [
        Call("1", "shell", "{}"),
        Call("1", "bash", "{"),
        Call("1", "bash", "[]"),
        Call("1", "bash", '{"command": 1}'),
        Call("1", "bash", '{"command": "ls", "more": 1}'),
    ],
)
def test_a_call_that_makes_no_sense_is_answered_and_counts_against_its_step(tmp_path, call):
    with opened(only_train(tmp_path)) as attempt:
        seen = attempt.act(call)
        assert (seen.text.startswith("Error: "), seen.score, seen.is_over) == (True, -1.0, False)
        assert attempt.hear("I would rather talk.").score == -1.0


def test_a_command_out_of_time_ends_alone_and_the_tasks_time_ends_the_attempt(tmp_path):
    folder = only_train(tmp_path, toml=TOML + "[agent]\ntimeout_sec = 1.5\n")
    with opened(folder, command_s=0.5) as attempt:
        seen = attempt.act(bash("sleep 60"))
        assert seen.text.endswith("It was ended after 0.5 s, with all that was started.\nExit code: 124")
        while not seen.is_over:
            seen = attempt.act(bash("sleep 60"))
        assert seen.text.startswith("The task's time is up.")
        assert attempt.outcome(is_truncated=False).value == -1.0


def test_an_agent_sees_its_tasks_files_variables_and_folders_and_nothing_of_scoring(tmp_path):
    folder = only_train(
        tmp_path,
        dockerfile=DOCKERFILE
        + "ENV A=1\nCOPY given.txt sub/\nRUN mkdir empty && ln -s sub/given.txt link && chmod 600 sub/*\n",
        toml=TOML + "env = { B = '2' }\n",
    )
    write(folder / "train" / "one", {"environment/given.txt": "given", "tests/expected.txt": "right"})
    with opened(folder) as attempt:
        said = attempt.act(bash("pwd; echo $A $B; cat link; echo; stat -c '%a %n' sub/* empty")).text.splitlines()[1:-1]
        assert said[:3] == ["/app", "1 2", "given"]
        assert said[3] == "600 sub/given.txt"
        hidden = attempt.act(
            bash("ls -d /tests /solution /logs /packages; ls -R / | grep -c 'solve.sh\\|expected.txt\\|task.toml'")
        )
        assert hidden.text.splitlines()[-2:] == ["0", "Exit code: 1"]


def test_empty_folders_and_modes_are_there_when_the_work_is_scored(tmp_path):
    test = f'[ -d /app/out ] && [ "$(stat -c %a /app/x)" = 750 ] && echo 1 > {REWARD} || echo 0 > {REWARD}'
    with opened(only_train(tmp_path, test=test, solve="mkdir out; touch x; chmod 750 x")) as attempt:
        attempt.act(bash("mkdir out; touch x; chmod 750 x"))
        attempt.act(DONE)
        assert attempt.outcome(is_truncated=False).ending == "solved"


def test_work_beside_the_tasks_folder_is_scored_too(tmp_path):
    files = {
        "instruction": "Write right to /data/deep/answer.txt and to /tmp/answer.txt.",
        "solve": "mkdir -p /data/deep; echo right | tee /data/deep/answer.txt > /tmp/answer.txt",
        "test": f"cmp /data/deep/answer.txt /tmp/answer.txt && echo 1 > {REWARD} || echo 0 > {REWARD}",
    }
    assert reason(task(tmp_path / "t", **files)) == ""


def test_what_a_program_does_is_scored_by_what_it_leaves(tmp_path):
    toml = TOML + "[[verifier.collect]]\ncommand = 'echo 3 4 | python3 /app/add.py > /app/answer.txt'\n"
    solve = "echo 'print(sum(map(int, input().split())))' > add.py"
    test = f'[ "$(cat /app/answer.txt)" = 7 ] && echo 1 > {REWARD} || echo 0 > {REWARD}'
    folder = only_train(tmp_path, toml=toml, test=test, solve=solve)
    with opened(folder) as attempt:
        attempt.act(bash(solve))
        attempt.act(DONE)
        assert attempt.outcome(is_truncated=False).ending == "solved"
    with opened(folder) as attempt:
        attempt.act(bash("echo 'print(8)' > add.py; echo 7 > answer.txt"))
        attempt.act(DONE)
        assert attempt.outcome(is_truncated=False).value == -1.0


STEPS = {
    "steps/one/instruction.md": "Write 1 to a.",
    "steps/one/tests/test.sh": f"grep -qx 1 /app/a && echo 1 > {REWARD} || echo 0 > {REWARD}",
    "steps/one/solution/solve.sh": "echo 1 > a",
    "steps/two/instruction.md": "Copy given to b.",
    "steps/two/workdir/setup.sh": "echo from setup > given",
    "steps/two/tests/test.sh": f"grep -q setup /app/b && echo 1 > {REWARD} || echo 0 > {REWARD}",
    "steps/two/solution/solve.sh": "cp given b",
}


@pytest.mark.parametrize(
    ("more", "commands", "value"),
    [
        ("", ["echo 1 > a", "cp given b"], 1.0),
        ("", ["true", "cp given b"], 0.0),  # the mean of 0 and 1 is a half
        ('multi_step_reward_strategy = "final"\n', ["true", "cp given b"], 1.0),
        ("least", ["true"], -1.0),
    ],
)
def test_steps_follow_one_another_in_one_room(tmp_path, more, commands, value):
    steps = (
        '[[steps]]\nname = "one"\n' + ("min_reward = 1.0\n" if more == "least" else "") + '[[steps]]\nname = "two"\n'
    )
    toml = more.replace("least", "") + TOML + steps
    folder = write(only_train(tmp_path, toml=toml), {f"train/one/{name}": text for name, text in STEPS.items()})
    with opened(folder) as attempt:
        assert attempt.opening[1]["content"] == "Write 1 to a."
        for number, command in enumerate(commands):
            attempt.act(bash(command))
            seen = attempt.act(DONE)
            assert seen.is_over == (number == len(commands) - 1)
            assert seen.is_over or seen.text == "Done. The next step:\nCopy given to b."
        assert attempt.outcome(is_truncated=False).value == value


def test_a_separate_verifier_has_its_own_image_and_the_artifacts_alone(tmp_path):
    toml = "artifacts = ['/app/out']\n" + TOML + "[verifier.environment]\nnetwork_mode = 'no-network'\n"
    files = {
        "environment/Dockerfile": DOCKERFILE,
        "tests/Dockerfile": "FROM debian:12\nWORKDIR /app\nCOPY . /tests/\nCOPY reference.txt /app/\n",
        "tests/reference.txt": "right\n",
        "tests/test.sh": "[ ! -e scratch ] && "
        f"cmp reference.txt out/answer.txt && echo 1 > {REWARD} || echo 0 > {REWARD}",
        "solution/solve.sh": "mkdir out; echo right > out/answer.txt; touch scratch",
    }
    assert reason(write(task(tmp_path / "t", toml), files)) == ""


def test_older_folders_are_scored_by_the_players_pytest(tmp_path):
    tests = (
        "import pathlib\n\n\ndef test_x():\n    assert pathlib.Path('/app/x').read_text() == '1'\n\n\n"
        "def test_y():\n    assert pathlib.Path('/app/y').exists()\n"
    )
    folder = write(
        tmp_path / "tasks" / "train" / "old",
        {
            "task.yaml": "instruction: Write 1 to /app/x and make /app/y.\n",
            "Dockerfile": "FROM ubuntu:24.04\nWORKDIR /app\n",
            "tests/test_outputs.py": tests,
            "solution.sh": "printf 1 > x; touch y",
            "weights.json": '{"test_x": 0.75, "test_y": 0.25}',
        },
    )
    with opened(folder.parents[1]) as attempt:
        attempt.act(bash("printf 1 > x"))
        attempt.act(DONE)
        outcome = attempt.outcome(is_truncated=False)
    assert outcome == Outcome("failed", 0.5, {"share": 0.75, "test_x": True, "test_y": False})  # 2 * 0.75 - 1


def test_a_verifier_that_cannot_run_is_no_agents_failure(tmp_path):
    folder = prepared(task(tmp_path / "t")).folder
    outcome = outcome_of([Score("infra_error", None, "no room")], folder, is_truncated=False)
    assert outcome == Outcome("infra_error", None)


def test_splits_are_folders_or_by_name_and_never_share_a_task(tmp_path):
    for number in range(12):
        task(tmp_path / "loose" / f"task-{number}")
    world = Harbor(tmp_path / "loose", "bubblewrap")
    places = {split: {place.name for place in world._places(split)} for split in ("train", "heldout")}
    assert places["train"] | places["heldout"] == {f"task-{number}" for number in range(12)}
    assert not places["train"] & places["heldout"]
    own = Harbor()
    names = {split: {place.name for place in own._places(split)} for split in ("train", "heldout")}
    assert (len(names["train"]), len(names["heldout"]), names["train"] & names["heldout"]) == (40, 20, set())


def test_equal_seeds_draw_equal_tasks_and_too_many_are_refused_with_reasons(tmp_path):
    for number in range(3):
        task(tmp_path / "tasks" / "train" / f"task-{number}")
    task(tmp_path / "tasks" / "train" / "bad", dockerfile="FROM alpine\n")
    draws = [[each.id for each in Harbor(tmp_path / "tasks", "bubblewrap").tasks("train", 2, 7)] for _ in range(2)]
    assert draws[0] == draws[1]
    with pytest.raises(Unplayable, match=r"has 3 train tasks that can be played, not 4\.\n.*alpine is no plain"):
        Harbor(tmp_path / "tasks", "bubblewrap").tasks("train", 4, 0)


def test_a_task_that_changed_since_it_was_drawn_is_not_played(tmp_path):
    world = Harbor(only_train(tmp_path), "bubblewrap")
    (drawn,) = world.tasks("train", 1, 0)
    world._prepared.clear()
    (tmp_path / "tasks" / "train" / "one" / "instruction.md").write_text("Write wrong.")
    with pytest.raises(WorldFailed, match="has changed"):
        world.open(drawn, 0)


def test_nothing_is_left_open_by_an_attempt(tmp_path):
    folder = only_train(tmp_path)
    with opened(folder) as attempt:
        attempt.act(bash("sleep 300 &"))
    before = len(os.listdir("/proc/self/fd"))
    with opened(folder) as attempt:
        attempt.act(bash("sleep 300 &"))
        attempt.act(DONE)
        attempt.outcome(is_truncated=False)
    attempt.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_tools_are_in_the_form_that_the_api_takes():
    assert json.loads(json.dumps(Harbor.name)) == "harbor"
    assert (Harbor.horizon, Harbor.parallel) == (10, 128)
