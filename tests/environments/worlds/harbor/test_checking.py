"""Before a task is played: the oracle, the untouched state, downloads, and what is kept of a check."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from environments.command import main
from environments.errors import SandboxUnavailable
from environments.sandboxes.trees import File, Tree
from environments.sandboxes.verifier import Score
from environments.worlds.harbor import checking, prepared
from environments.worlds.harbor.checking import checked
from environments.worlds.harbor.downloads import downloading_line, what_downloads
from environments.worlds.harbor.prepared import read
from tests.environments.worlds.harbor.made import DOCKERFILE, REWARD, TOML, reason, task

pytestmark = pytest.mark.bubblewrap

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"solve": "true"}, "unscorable: the oracle scored 0."),
        ({"test": "true"}, "the oracle got no verdict: The verifier wrote no verdict"),
        ({"test": f"echo 1 > {REWARD}"}, "unscorable: doing nothing scored 1."),
        ({"test": f"echo 0.99 > {REWARD}"}, "the oracle scored 0.99"),
        ({"test": f"echo nan > {REWARD}"}, "the oracle got no verdict: reward.txt holds no number"),
        ({"dockerfile": DOCKERFILE + "RUN exit 3\n"}, "environment/Dockerfile:3: RUN exit 3: exit code 3"),
        ({"dockerfile": DOCKERFILE + "COPY x /usr/bin/x\n"}, "COPY x /usr/bin/x: x is not in the folder"),
        ({"dockerfile": DOCKERFILE + "RUN touch /usr/x\n"}, "Read-only file system"),
        ({"toml": TOML.replace("no-network", "public")}, "bubblewrap gives no network of the kind public"),
        ({"toml": TOML.replace("no-network", "allowlist")}, "bubblewrap gives no network of the kind allowlist"),
    ],
)  # fmt: skip
def test_a_task_that_cannot_tell_is_not_played(tmp_path, parts, says):
    assert says in reason(task(tmp_path / "t", **parts))


def test_a_task_without_an_oracle_is_not_played(tmp_path):
    folder = task(tmp_path / "t")
    (folder / "solution" / "solve.sh").unlink()
    assert "it has no solution/solve.sh to show that 1 is reached" in reason(folder)


@pytest.mark.parametrize(
    "line",
    [
        "apt-get update && apt-get install -y curl", "pip install pytest==8", "python3 -m pip install x", "uvx pytest",
        "curl -LsSf https://example.org/install.sh | sh", "wget -q http://example.org", "  sudo apt install x",
        "if ! uv pip install x; then exit 1; fi", "x=$(curl https://example.org)", "pip \\\n  install x", "npm ci",
        "A=1 pip3 install x",
    ],
)  # fmt: skip
def test_a_verifier_that_downloads_is_unscorable_before_anything_is_built(tmp_path, monkeypatch, line):
    monkeypatch.setattr(prepared.images, "make", None)  # it would be called
    said = reason(task(tmp_path / "t", test=f"#!/bin/bash\n{line}\necho 1 > {REWARD}\n"))
    assert "unscorable: tests/test.sh:2: " in said
    assert "needs the network, and a verifier has none" in said


@pytest.mark.parametrize(
    "line",
    [
        "# pip install x",
        "echo 'run curl'",
        "grep wget log.txt",
        "curl -s http://localhost:8080/",
        "python3 pip.py",
        "./curl",
    ],
)
def test_words_of_downloads_are_none(line):
    assert what_downloads(line) is None


def test_the_line_is_that_of_the_script():
    tests = Tree({"lib.sh": File(b"a\nb \\\n c\n\npip install x\n")})
    assert downloading_line(tests) == "lib.sh:5: pip install"


def test_a_check_is_kept_by_the_hash_of_the_folder(tmp_path, monkeypatch):
    folder = task(tmp_path / "t")
    assert checked(read(folder), "bubblewrap")[0].oracle == 1.0
    tried = []
    monkeypatch.setattr(checking, "_reach", lambda prepared: tried.append(prepared) or 1.0)
    found, ready = checked(read(folder), "bubblewrap")
    assert (found.is_playable, found.oracle, tried) == (True, 1.0, [])
    assert ready.verifiers[0].qualified
    checked(read(folder), "bubblewrap", again=True)
    assert len(tried) == 1
    (folder / "tests" / "test.sh").write_text(f"[ -e /app/answer.txt ] && echo 1 > {REWARD} || echo 0 > {REWARD}")
    checked(read(folder), "bubblewrap")
    assert len(tried) == 2


def test_what_the_machine_was_to_blame_for_is_not_kept(tmp_path, monkeypatch):
    def broken(*_):
        raise SandboxUnavailable("no room")

    folder = read(task(tmp_path / "t"))
    with monkeypatch.context() as patched:
        patched.setattr(checking, "prepare", broken)
        assert checked(folder, "bubblewrap")[0].reason == "no room"
    assert checked(folder, "bubblewrap")[0].reason == ""


def test_a_verdict_that_is_missing_is_asked_for_again(tmp_path, monkeypatch):
    folder = read(task(tmp_path / "t"))
    with monkeypatch.context() as patched:
        patched.setattr(prepared.Prepared, "score", lambda *_: Score("infra_error", None, "no room"))
        assert checked(folder, "bubblewrap")[0].reason.endswith("the oracle got no verdict: no room")
    assert checked(folder, "bubblewrap")[0].reason == ""


def test_the_command_says_each_task_and_fails_where_one_cannot_be_played(tmp_path, capsys):
    task(tmp_path / "tasks" / "good")
    task(tmp_path / "tasks" / "bad", dockerfile="FROM alpine\n")
    assert main(["worlds", "check", str(tmp_path / "tasks")]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("no  bad-") or said[0].startswith("no  bad")
    assert "alpine is no plain" in said[0]
    assert said[1].startswith("ok  good-")
    assert said[2] == "1 of 2 can be played."
    assert main(["worlds", "check", str(tmp_path / "tasks" / "good"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["oracle"] == 1.0
    assert main(["worlds", "check", str(tmp_path)[:-1]]) == 1
    assert "holds no task folder" in capsys.readouterr().err


def test_the_example_of_the_docs_is_a_task_that_can_be_played(tmp_path):
    page = (ROOT / "docs" / "how-to" / "bring-terminal-tasks.md").read_text()
    example = page.split("```sh\n")[1].split("```")[0]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    said = subprocess.run(
        ["bash", "-ec", example],
        cwd=tmp_path,
        env={"PATH": path, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert said.stdout.endswith("1 of 1 can be played.\n"), said.stderr
