"""Evidence from beginning to end, as `make evidence QUICK=1` plays it: the real model, every process, a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.evidence.__main__ import main

pytestmark = [pytest.mark.real_model, pytest.mark.processes, pytest.mark.timeout(3600)]


def test_two_arms_are_played_to_a_report_and_the_next_start_has_nothing_left_to_ask(
    smol_model: Path, tmp_path: Path
) -> None:
    command = ["--quick", "--arms", "base,combined", "--model", str(smol_model), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    journal = [json.loads(line) for line in (tmp_path / "out" / "journal.jsonl").read_text().splitlines()]
    rounds = [row for row in journal if row["key"].startswith("round/")]
    assert [row["checkpoint"] for row in rounds] == [1]
    assert not any(row["trouble"] for row in rounds)
    rows = [json.loads(line) for line in (tmp_path / "out" / "probes.jsonl").read_text().splitlines()]
    own = {(row["arm"], row["update"], row["model"]) for row in rows if row["set"] == "own"}
    assert own == {("base", 0, "talkback@0"), ("combined", 0, "talkback@0"), ("combined", 4, "talkback@1")}
    assert all(row["kl"] is None or row["kl"] == 0 for row in rows if row["update"] == 0)
    assert any(row["kl"] for row in rows if row["update"] == 4)  # the adapter answers, and is not the base
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["plan"]["seeds"] == [1]

    assert main(command) == 0
    again = (tmp_path / "out" / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in again[len(journal) :]] == ["spent/1"]
