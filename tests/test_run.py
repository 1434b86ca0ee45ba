"""A run of the tests runs every part, and says last what it left out, what would bring it, and what failed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from installation.places import ROOT
from tests.run import FEW, Part, print_summary, run_part

pytestmark = pytest.mark.processes

SKIPS = re.compile(r"mark\.skip\w*\(|pytest\.skip\(")
MAY_SKIP = {"left_out", "test_run", "test_escapes", "test_hacks", "test_keeper", "test_launch"}
"""Two are about skipping, one has a task that skips, one asks that another user may read it, two ask for Linux."""
BORROWED = re.compile(r"^from .*\b(pytestmark|SIZES)\b|^ +(pytestmark|SIZES),$", re.MULTILINE)

TESTS = """
import pytest

@pytest.mark.browser
def test_needs_a_browser():
    raise AssertionError("it was run without one")

@pytest.mark.processes
def test_is_for_another_command():
    raise AssertionError("it was run all the same")

@pytest.mark.repeats
def test_makes_a_claim_again_of_one_case_more():
    raise AssertionError("it was run all the same")

@pytest.mark.quarantined("the clock of this machine jumps")
def test_is_known_to_fail_at_times():
    raise AssertionError("it was run all the same")

@pytest.mark.real_model
def test_of_a_later_part():
    print("the later part was run")

@pytest.mark.database("postgresql")
def test_is_of_the_other_database():
    raise AssertionError("it was run on SQLite")

def test_is_skipped_for_a_reason_of_its_own():
    pytest.skip("the moon is not full")

def test_needs_nothing():
    pass

def test_is_broken():
    raise AssertionError("as it should")

def test_is_not_asked_for():
    raise AssertionError("-k did not reach pytest")
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "test_some.py").write_text(TESTS)
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TESTS_"))}
    parts = ["--part", "rooms", "--part", "browsers", "--part", "real_model"]
    one_process = ["-n", "0", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "tests.run", *parts, str(folder), "-k", "not asked_for", *one_process],
        cwd=ROOT,
        env=here | {"PATH": str(folder)},  # no program is found: no Chromium
        capture_output=True,
        text=True,
    )


@pytest.fixture
def last_lines(run: subprocess.CompletedProcess[str]) -> list[str]:
    return run.stdout.partition("== all parts ==")[2].strip().splitlines()


def test_a_part_that_fails_keeps_no_later_part_from_running(
    run: subprocess.CompletedProcess[str], last_lines: list[str]
):
    assert run.returncode == 1, run.stdout + run.stderr
    assert [line.split()[:2] for line in last_lines[:3]] == [
        ["rooms", "FAILED"],
        ["browsers", "passed"],
        ["real_model", "passed"],
    ]


def test_what_failed_is_named_last_with_its_part(last_lines: list[str]):
    assert [line for line in last_lines if "FAILED in" in line] == last_lines[-1:]
    assert last_lines[-1].startswith("FAILED in rooms: ")
    assert last_lines[-1].endswith("test_some.py::test_is_broken")


def test_what_this_machine_lacks_is_named_with_the_command_that_brings_it(last_lines: list[str]):
    assert "Left out: 1 that need a Chromium. `sudo apt-get install chromium` brings them." in last_lines


def test_what_a_test_skips_for_a_reason_of_its_own_is_counted_with_that_reason(last_lines: list[str]):
    assert "Left out: 1, since the moon is not full" in last_lines


def test_what_one_database_alone_does_is_left_to_the_command_that_has_it(last_lines: list[str]):
    expected = (
        "Left to another command: 1 of what PostgreSQL alone does. `.venv/bin/python -m tests.postgres` runs them."
    )
    assert last_lines.count(expected) == 1


def test_a_test_that_a_machine_may_not_be_able_to_run_says_so_by_a_marker():
    # Of what another way skips, `tests.left_out` cannot say what brings it.
    skipping = {path.stem for path in ROOT.glob("tests/**/*.py") if SKIPS.search(path.read_text())}
    assert skipping == MAY_SKIP


def test_what_another_command_runs_is_named_once_with_that_command(last_lines: list[str]):
    # Each of the three parts left it out.
    expected = "Left to another command: 1 that start and kill real processes. `make test-all` runs them."
    assert last_lines.count(expected) == 1


def test_what_repeats_a_claim_is_left_out_and_counted(last_lines: list[str]):
    assert "Left to another command: 1 that repeat a claim over more cases. `make test-all` runs them." in last_lines


def test_a_quarantined_test_is_named_with_the_reason(last_lines: list[str]):
    assert "Left to another command: 1 that are known to fail at times. `make test-all` runs them." in last_lines
    [named] = [line for line in last_lines if line.endswith(": the clock of this machine jumps")]
    assert "test_some.py::test_is_known_to_fail_at_times" in named


ONE_FALTERS = """
from pathlib import Path

def test_is_late_beside_others():
    tried = Path(__file__).with_name("tried")
    assert tried.exists() or tried.touch()

def test_is_steady():
    pass
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """In the project, so that the names of its tests are paths from there, as those of all others are."""
    (ROOT / "var").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tests-", dir=ROOT / "var") as made:
        yield Path(made)


def test_what_passes_alone_is_unsteady_and_said_so_and_fails_nothing(folder: Path, capsys):
    (folder / "test_some.py").write_text(ONE_FALTERS)
    outcome = run_part("browsers", Part("not processes", again=True), [str(folder), "-p", "no:cacheprovider"])
    assert (outcome.status, outcome.failed) == (0, [])
    assert [test.partition("::")[2] for test in outcome.unsteady] == ["test_is_late_beside_others"]
    print_summary([outcome])
    assert "UNSTEADY in browsers: " in capsys.readouterr().out


@pytest.mark.parametrize(("broken", "again"), [(1, True), (FEW + 1, True), (1, False)])
def test_what_fails_alone_too_or_is_not_one_of_a_few_fails_the_part(folder: Path, broken: int, again: bool):
    tests = [f"def test_is_broken_{n}():\n    assert False\n" for n in range(broken)]
    (folder / "test_some.py").write_text("\n".join(tests))
    outcome = run_part("browsers", Part("not processes", again=again), [str(folder), "-p", "no:cacheprovider"])
    assert (outcome.status, len(outcome.failed), outcome.unsteady) == (1, broken, [])


def test_where_no_part_has_a_test_that_was_asked_for_the_run_fails(tmp_path: Path):
    (tmp_path / "test_some.py").write_text("def test_here(): pass")
    asked = ["--part", "rooms", str(tmp_path), "-k", "there", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, "-m", "tests.run", *asked], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 5
    assert done.stdout.endswith("No test was selected.\n")


def test_a_file_names_the_markers_of_its_tests():
    # The parts for browsers and for the real model read only files that name their marker.
    borrowed = [path.name for path in ROOT.glob("tests/**/test_*.py") if BORROWED.search(path.read_text())]
    assert borrowed == []


def test_what_asks_no_database_comes_first_and_what_commits_last():
    """So that workers that compute are never done while one still waits for clocks."""
    files = ["tests/webapp/people/test_routes.py", "tests/webapp/serving/test_server.py"]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *files]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    names = [line.partition("::")[2].partition("[")[0] for line in said if "::" in line]
    servers = said.index(
        "tests/webapp/serving/test_server.py::test_a_connection_that_says_nothing_is_closed_without_a_word"
    )
    assert servers < said.index("tests/webapp/people/test_routes.py::test_the_page_says_who_may")
    assert names[-1] == "test_each_socket_stays_open_for_exactly_the_roles_of_the_table"
