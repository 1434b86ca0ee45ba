"""Commands whose reader leaves: `manage.py … | head` ends without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.stack import ROOT

pytestmark = pytest.mark.processes

LASTS = (
    *("gpu_workers/embedded/__main__.py", "benchmarks/scripted/__main__.py", "gpu_workers/servers/serving.py"),
    *("webapp/serving/web_server.py", "installation/supervisor.py", "environments/sandboxes/keeper.py"),
    "environments/worlds/harnesses/forwarder.py",
)
"""Servers and the supervisor: they go on whether or not anything reads what they say."""

SILENT = (
    *("training/launch.py", "docker/sglang_cpu/install.py", "environments/worlds/harbor/pytest_run.py"),
    "environments/worlds/repo/inside.py",
)
"""The first writes to a file that its starter names; the others run where this package is not."""


def unread(*command: str, **environment: str) -> tuple[int, str]:
    """Status and standard error of a command of which nothing reads the output."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=writes,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writes)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "help"),  # a few lines, which are written as it ends
        ("manage.py", "checkpoints", "list"),
        ("-u", "manage.py", "checkpoints", "list"),  # each line at once
        ("-m", "environments", "people"),
        ("-m", "lab.curriculum", "--help"),
        ("-m", "benchmarks.judge", "--help"),
    ],
    ids=" ".join,
)
def test_a_command_that_is_not_read_ends_without_a_word(command: tuple[str, ...], folder: Path):
    # 128 + 13, SIGPIPE's number: what a shell says of `cat` in the same place
    assert unread(*command, DATA_DIR=str(folder)) == (141, "")


def test_a_failure_that_catches_every_error_does_not_hide_the_missing_reader():
    code = (
        "from core import pipes\npipes.end_with_reader()\ntry:\n    print(1, flush=True)\nexcept Exception:\n    pass"
    )
    assert unread("-c", code) == (141, "")


def test_a_command_that_is_read_ends_with_its_own_status():
    code = "import sys; from core import pipes; pipes.end_with_reader(); print('häuser'); sys.exit(3)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout, done.stderr) == (3, "häuser\n", "")


def test_every_module_that_is_run_and_prints_ends_with_its_reader():
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    run = [name for name in listed.stdout.split() if not name.startswith(("tests/", ".ci/"))]
    run = [name for name in run if '__name__ == "__main__"' in (ROOT / name).read_text()]
    assert {*LASTS, *SILENT} < {*run}
    without = [name for name in run if "pipes.end_with_reader()" not in (ROOT / name).read_text()]
    assert sorted(without) == sorted([*LASTS, *SILENT])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated DATA_DIR."""
    folder = tmp_path_factory.mktemp("data")
    environment = {**os.environ, "DATA_DIR": str(folder)}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=environment, check=True)
    return folder
