"""A run says last what it left out, and what would bring it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from installation.places import ROOT

BORROWED = re.compile(r"^from .*\bpytestmark\b|^ +pytestmark,$", re.MULTILINE)

TESTS = """
import pytest

@pytest.mark.browser
def test_needs_a_browser():
    raise AssertionError("it was run without one")

@pytest.mark.processes
def test_is_for_another_command():
    raise AssertionError("it was run all the same")

def test_needs_nothing():
    pass
"""


@pytest.fixture
def last_lines(tmp_path: Path) -> list[str]:
    (tmp_path / "test_some.py").write_text(TESTS)
    here = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    without = here | {"PATH": str(tmp_path)}  # no program is found: no Chromium
    pytest_command = [sys.executable, "-m", "pytest", "-p", "tests.left_out", "-p", "no:cacheprovider", "-q"]
    outcome = subprocess.run(
        [*pytest_command, "-m", "not processes", str(tmp_path / "test_some.py")],
        cwd=ROOT,
        env=without,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout
    assert "1 passed, 1 skipped, 1 deselected" in outcome.stdout
    return outcome.stdout.strip().splitlines()[-3:]


def test_what_this_machine_lacks_is_named_with_the_command_that_brings_it(last_lines: list[str]):
    assert "Left out: 1 that need a Chromium. `sudo apt-get install chromium` brings them." in last_lines


def test_what_another_command_runs_is_named_with_that_command(last_lines: list[str]):
    expected = "Left to another command: 1 that start and kill real processes. `make test-all` runs them."
    assert expected in last_lines


def test_a_file_names_the_markers_of_its_tests():
    # `make test` looks for browsers and for the real model only in files that name their marker.
    borrowed = [path.name for path in ROOT.glob("tests/**/test_*.py") if BORROWED.search(path.read_text())]
    assert borrowed == []
