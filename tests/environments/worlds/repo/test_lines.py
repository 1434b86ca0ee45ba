"""A user's tasks: lines of SWE-bench, SWE-smith and NeMo-Gym over a folder of mirrors, and what is refused of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from environments.errors import Unplayable
from environments.worlds.repo.mirrors import run_git
from environments.worlds.repo.world import Repo, RepoAttempt
from tests.environments.worlds.repo.made import bash, commit, diff, play

pytestmark = pytest.mark.bubblewrap

ROOT = Path(__file__).parents[4]

WRONG = "def double(n):\n    return n + 2\n"
RIGHT = "def double(n):\n    return n * 2\n"
TEST = "from twice import double\n\n\ndef test_two():\n    assert double(2) == 4\n"
TEST += "\n\ndef test_three():\n    assert double(3) == 6\n"


@pytest.fixture
def mirror(tmp_path):
    """A mirror with a later commit that mends twice.py and tests it: (place, base, line of SWE-bench)."""
    place = tmp_path / "mirrors" / "ana__twice"
    base = commit(place, {"twice.py": WRONG})
    fixed = commit(place, {"twice.py": RIGHT})
    tested = commit(place, {"tests/test_twice.py": TEST})
    row = {
        "instance_id": "ana__twice-1",
        "repo": "ana/twice",
        "base_commit": base,
        "problem_statement": "double(3) is 5.",
        "patch": diff(place, base, fixed),
        "test_patch": diff(place, fixed, tested),
        "FAIL_TO_PASS": json.dumps(["tests/test_twice.py::test_three"]),
        "PASS_TO_PASS": ["tests/test_twice.py::test_two"],
        "split": "train",
    }
    return place, tested, row


def world(tmp_path, *rows) -> Repo:
    file = tmp_path / "tasks.jsonl"
    file.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return Repo(file, kind="bubblewrap")


def test_swe_bench_line_is_played_from_a_mirror(tmp_path, mirror):
    ready = world(tmp_path, mirror[2]).prepare("ana__twice-1")
    assert play(ready, "sed -i 's/+ 2/* 2/' twice.py").ending == "solved"
    # 1 of 2 tests pass: 2 * 1/2 - 1 = 0
    assert play(ready).value == 0.0


def test_the_mended_commit_is_out_of_the_agents_reach(tmp_path, mirror):
    place, tested, row = mirror
    assert b"n * 2" in run_git(place, "show", f"{tested}:twice.py")
    with RepoAttempt(world(tmp_path, row).prepare("ana__twice-1"), "bubblewrap") as attempt:
        said = attempt.act(bash(f"git show {tested}:twice.py; git cat-file -e {tested} || echo gone")).text
    assert "n * 2" not in said
    assert "gone" in said


def test_bare_mirror_is_read(tmp_path, mirror):
    place, _, row = mirror
    shutil.copytree(place / ".git", tmp_path / "bare" / "ana__twice.git")  # what a bare one holds
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(row))
    assert [each.reason for each in Repo(file, tmp_path / "bare", "bubblewrap").check()] == [""]


def test_nemo_gym_line_is_read(tmp_path, mirror):
    row = dict(mirror[2])
    row["golden_patch"] = row.pop("patch")
    inner = {"instance_id": row.pop("instance_id"), "split": row.pop("split"), "instance_dict": json.dumps(row)}
    (found,) = world(tmp_path, {"responses_create_params": {"input": [], "metadata": inner}}).check()
    assert (found.task, found.reason) == ("ana__twice-1", "")


def test_swe_smith_line_whose_patch_makes_the_bug(tmp_path, mirror):
    place, tested, row = mirror
    bug = commit(place, {"twice.py": WRONG})
    row = {key: row[key] for key in ("instance_id", "problem_statement", "FAIL_TO_PASS", "PASS_TO_PASS", "split")}
    row |= {"repo": f"swesmith/ana__twice.{tested[:8]}", "patch": diff(place, tested, bug)}
    ready = world(tmp_path, row).prepare("ana__twice-1")
    assert play(ready, "sed -i 's/+ 2/* 2/' twice.py").ending == "solved"
    assert play(ready).ending == "failed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repo": "ana/other"}, "holds no mirror of ana/other"),
        ({"repo": "../../ana"}, "holds no mirror of"),
        ({"base_commit": "0" * 40}, "0000: "),
        ({"base_commit": "--output=x"}, "names no commit"),
        ({"patch": "--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n"}, "patch does not apply"),
        ({"FAIL_TO_PASS": ["test_three (tests.Twice)"]}, "is no test that pytest knows"),
        ({"FAIL_TO_PASS": ["tests/test_twice.py::test_four"]}, "the reference misses 1 of 2 tests"),
        ({"FAIL_TO_PASS": ["tests/test_twice.py::test_two"]}, "the untouched repository passes all"),
        ({"problem_statement": ""}, "it has no problem_statement"),
    ],
)
def test_line_that_cannot_be_scored_is_refused_by_name(tmp_path, mirror, change, said):
    (found,) = world(tmp_path, mirror[2] | change).check()
    assert said in found.reason
    with pytest.raises(Unplayable, match="0 train tasks that can be played"):
        world(tmp_path, mirror[2] | change).tasks("train", 1, seed=1)


def test_lines_that_are_no_task_are_named_by_number(tmp_path, mirror):
    reasons = [each.reason for each in world(tmp_path, "no JSON", mirror[2], mirror[2]).check()]
    assert [reason.partition("tasks.jsonl")[2] for reason in reasons] == [
        ":1: no JSON object.",
        ":3: ana__twice-1 is there twice.",
        "",
    ]


def test_the_example_of_the_docs_makes_a_mirror_and_a_line_that_can_be_played(tmp_path):
    page = (ROOT / "docs" / "how-to" / "bring-repositories.md").read_text()
    example, _, played = page.split("```sh\n")[1].split("```")[0].partition("python3 -m environments worlds play ")
    said = subprocess.run(
        ["bash", "-ec", example],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert said.stdout.endswith("1 of 1 can be played.\n"), said.stderr
    assert played.strip() == "--world repo:tasks.jsonl"
    ready = Repo(tmp_path / "tasks.jsonl", kind="bubblewrap").prepare("ana__twice-1")
    assert play(ready, "sed -i 's/+ 2/* 2/' twice.py").ending == "solved"
    assert play(ready).value == -1.0
