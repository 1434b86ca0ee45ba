"""Run the tests part by part, all parts even where one fails; the last lines say what was left out and what failed.

python -m tests.run [--all] [--part NAME]... [pytest's arguments]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import postgres
from tests.left_out import Names, lines, postgres_is_there

TESTS = Path(__file__).parent


class Part(NamedTuple):
    """Tests that run together."""

    marks: str
    """Which tests, as pytest's -m says it."""
    workers: int = 1
    """How many run at a time on two cores."""
    marker: str = ""
    """Read only files with this marker: to read all the others takes longer than the tests of those few."""
    module: str = "pytest"
    """The Python module that takes the arguments."""
    options: tuple[str, ...] = ()
    again: bool = False
    """Whether the few that fail are run once more, alone: a page on a machine that is busy can be late for its test."""

    def narrowed(self, marks: str) -> Part:
        return self._replace(marks=f"({self.marks}) and ({marks})") if marks else self


HERE = "not processes and not lab and not repeats and not sglang and not openclaw and not quarantined"

# One test in four waits for a process, a clock or a database: four fill two cores, three where each has a browser.
# The real model computes on one core a worker, so nothing may be busy beside two of them. What starts processes of its
# own runs one at a time. Not --dist worksteal: it has a worker go back to tests that come before those that empty the
# database.
PARTS = {
    "postgres": Part(f"not browser and not real_model and {HERE}", workers=3, module="tests.postgres"),
    "rooms": Part(f"not browser and not real_model and {HERE}", workers=4),
    "browsers": Part(f"browser and not real_model and {HERE}", workers=3, marker="browser", again=True),
    "real_model": Part(f"real_model and {HERE}", workers=2, marker="real_model"),
}
MORE = {
    "postgres": PARTS["postgres"]._replace(
        marks=PARTS["postgres"].marks.replace(" and not repeats", ""), options=("--all",)
    ),
    "repeats": Part("repeats and not processes and not sglang and not quarantined", workers=2, marker="repeats"),
    "lab": Part("lab and not processes and not sglang and not openclaw and not quarantined", workers=2),
    "processes": Part("processes and not sglang and not openclaw and not quarantined", marker="processes"),
    "sglang": Part("sglang and not quarantined", marker="sglang"),
    "quarantined": Part("quarantined and not openclaw", marker="quarantined"),
}
"""What `make test-all` adds, or does more of."""

ENDS = {0: "passed", 5: "has no such test"}
"""Pytest's exit statuses that are no failure. 5: no test was selected."""

FEW = 3
"""Where more fail, something is broken, and it is not the machine."""


class Outcome(NamedTuple):
    name: str
    part: Part
    status: int
    seconds: float
    failed: list[str]
    lacking: Names
    left_to: Names
    unsteady: list[str]
    """What failed beside others and passed alone."""


def files_with(marker: str, arguments: Sequence[str]) -> list[str]:
    """The files of tests that name a marker: of those that the arguments name, or of all."""
    named = [Path(path.partition("::")[0]) for path in postgres.named_tests(arguments)] or [TESTS]
    files = [file for path in named for file in ([path] if path.is_file() else sorted(path.rglob("test_*.py")))]
    return [str(file) for file in files if f"mark.{marker}" in file.read_text("utf-8")]


def command_of(part: Part, arguments: Sequence[str]) -> list[str]:
    """The command that runs one part; pytest's arguments come after its own, so that they win."""
    command = [sys.executable, "-m", part.module, *part.options, "-q", "-p", "tests.left_out", "--durations=20"]
    command += ["-m", part.marks]
    if part.workers > 1:
        command += ["-n", str(part.workers)]
    if part.marker and not postgres.named_tests(arguments):
        command += files_with(part.marker, arguments)
    return command + list(arguments)


def run_part(name: str, part: Part, arguments: Sequence[str]) -> Outcome:
    if part.marker and not files_with(part.marker, arguments):
        return Outcome(name, part, int(pytest.ExitCode.NO_TESTS_COLLECTED), 0.0, [], {}, {}, [])
    print(f"\n== {name} ==", flush=True)
    started = time.monotonic()
    status, said = run_pytest(command_of(part, arguments))
    failed, lacking, left_to = (said.get(key, {}) for key in ("failed", "lacking", "left_to"))
    unsteady: list[str] = []
    if part.again and status == pytest.ExitCode.TESTS_FAILED and 0 < len(failed) <= FEW:
        print(f"\n== {name}, alone: what failed ==", flush=True)
        options = [argument for argument in arguments if argument not in postgres.named_tests(arguments)]
        alone, said = run_pytest(command_of(part._replace(workers=1), [*failed, *options]))
        if alone in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and "failed" in said:
            status, unsteady = alone, [test for test in failed if test not in said["failed"]]
            failed = [test for test in failed if test in said["failed"]]
    return Outcome(name, part, status, time.monotonic() - started, list(failed), lacking, left_to, unsteady)


def run_pytest(command: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Pytest's exit status, and the summary that `tests.left_out` writes; {} where it did not come to that."""
    with tempfile.TemporaryDirectory(prefix="talkback-summary-") as folder:
        summary = Path(folder) / "summary.json"
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        environment = {**os.environ, **one_thread, "TESTS_SUMMARY": str(summary)}
        # Where it is set, as in many containers, each process compiles all that it imports: 12 s before torch is there.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        status = subprocess.run(command, env=environment, check=False).returncode
        return status, json.loads(summary.read_text("utf-8")) if summary.exists() else {}


def union(parts: Iterable[Names]) -> Names:
    """Each test once, however many parts came by it."""
    all_of: Names = {}
    for part in parts:
        for key, names in part.items():
            all_of.setdefault(key, set()).update(names)
    return all_of


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """Say how each part ended, then what was left out, and last what failed."""
    print("\n== all parts ==")
    for name, _, status, seconds, *_ in outcomes:
        print(f"{name:12} {ENDS.get(status, 'FAILED'):17} {seconds // 60:2.0f} min {seconds % 60:2.0f} s")
    left_to = union(outcome.left_to for outcome in outcomes)
    for outcome in outcomes:
        left_to.pop(outcome.name, None)  # left to a part that has been run
    for line in lines(union(outcome.lacking for outcome in outcomes), left_to):
        print(line)
    if postgres_is_there() and any(outcome.part == PARTS["postgres"] for outcome in outcomes):
        print(postgres.LEFT)
    for outcome in outcomes:
        for test in outcome.unsteady:
            print(f"UNSTEADY in {outcome.name}: {test} failed beside others and passed alone; mend or quarantine it.")
    for outcome in outcomes:
        for test in outcome.failed:
            print(f"FAILED in {outcome.name}: {test}")
        if outcome.status not in ENDS and not outcome.failed:
            print(f"FAILED: {outcome.name} ended with status {outcome.status}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__, allow_abbrev=False)
    parser.add_argument("--all", action="store_true", help="also what starts and kills processes, and the real SGLang")
    parser.add_argument("--part", action="append", choices=list(PARTS | MORE), help="only this part; may be repeated")
    parser.add_argument("-m", default="", metavar="MARKS", help="of each part, only tests with these marks")
    options, rest = parser.parse_known_args(arguments)
    parts = PARTS | MORE if options.all else MORE | PARTS
    chosen = options.part or (parts if options.all else PARTS)
    outcomes = [run_part(name, part.narrowed(options.m), rest) for name, part in parts.items() if name in chosen]
    print_summary(outcomes)
    if all(outcome.status == pytest.ExitCode.NO_TESTS_COLLECTED for outcome in outcomes):
        print("No test was selected.")
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    return int(any(outcome.status not in ENDS for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
