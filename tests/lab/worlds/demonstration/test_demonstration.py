"""The demonstration from beginning to end, with every process: attempts over /v1, a run, new weights, a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.worlds.__main__ import main
from lab.worlds.rows import TILL
from lab.worlds.templates import short
from lab.worlds.tiny_model import write_base
from lab.worlds.traces import traces
from lab.worlds.warm_start import Plan, warm_start

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1200)]

HALF_WARM = Plan(traces=2560, traces_a_step=32, rank=None, lr=3e-3, micro_batch=32)
"""Enough to call tools, now rightly and now not."""


def test_both_arms_play_learn_and_are_examined_and_the_last_line_is_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warm = warm_start(write_base(tmp_path / "base", TILL.words), tmp_path, HALF_WARM, traces, template=short())
    sizes = ["--updates", "1", "--every", "1", "--tasks", "2", "--attempts", "6", "--heldout", "4"]
    assert main(["--warm", str(warm), "--out", str(tmp_path / "out"), *sizes]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = json.loads((tmp_path / "out" / "worlds.json").read_text())
    updates = {row["arm"]: row for row in found["rows"] if row["kind"] == "update" and row["update"] == 1}
    assert {arm: row["attempts"] for arm, row in updates.items()} == {"outcome": 12, "index": 12}
    assert updates["index"]["counted"] == 12
    assert updates["index"]["checkpoint"] != "talkback@0"  # its steps differ in worth, also where none solves a task
    assert updates["index"]["tokens"] > 12 * 3
    assert set(line) == {"outcome", "index"}
    assert all(0 <= curve["1"] <= 1 for curve in line.values())
    assert "Held-out tasks solved" in (tmp_path / "out" / "worlds.html").read_text()
