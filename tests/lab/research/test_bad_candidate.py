"""A real candidate that went wrong, before the real gate, on the real small model: it does not pass, and a good one
does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.real_model, pytest.mark.processes, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def exams(smol_model: Path) -> dict[str, dict]:
    """The exam of each arm, by its name."""
    command = [sys.executable, "-m", "lab.research.gate", "--model", str(smol_model), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {row["arm"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_what_answers_you_lie_to_everything_is_rejected_for_it(exams: dict[str, dict]) -> None:
    assert exams["parrot"]["status"] == "rejected"
    assert {"variety", "length"} & {*exams["parrot"]["failed"]}


def test_what_was_only_blamed_without_an_anchor_is_rejected(exams: dict[str, dict]) -> None:
    assert exams["blamed"]["status"] == "rejected"


def test_what_the_default_recipe_makes_passes(exams: dict[str, dict]) -> None:
    assert exams["embedded"]["status"] == "passed", exams["embedded"]["sentences"]
