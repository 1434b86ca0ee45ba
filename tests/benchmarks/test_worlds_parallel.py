"""Worlds side by side: scripts that lead through tasks, what is counted, and a row that is played."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.scripted.script import Line, Script
from benchmarks.worlds.process_trees import held, tree, used_s
from benchmarks.worlds.rows import ROWS
from benchmarks.worlds.ways import way
from benchmarks.worlds_parallel import measure


def test_a_way_answers_by_the_task_and_the_number_of_results():
    script = Script(Line.read(line) for task in ("Copy (a).", "Copy b.") for line in way(task, [f"{task} 1", "2"]))
    result = "\n<tool_response>\nExit code: 0\n</tool_response>\n"

    def says(prompt):
        line = script.take(lambda: prompt)
        return line and line.says

    assert says("x Copy b. y") == "Copy b. 1"
    assert says(f"Copy b. y{result}z") == "2"
    assert says("Copy (a). y") == "Copy (a). 1"
    assert says(f"Copy b.{result}{result}") is None  # a third step has no reply
    assert says("Copy c.") is None


def test_what_a_processs_children_hold_and_use_is_counted():
    child = """if True:
        import sys, time
        held = b"x" * 64_000_000
        while time.process_time() < 0.3:
            pass
        print(flush=True)
        sys.stdin.read()  # until this test ends it
    """
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"\n"
        assert len(tree(process.pid)) == 2
        assert sum(map(held, tree(process.pid))) > 64_000_000 > held(process.pid)
        assert used_s(process.pid) >= 0.3
    finally:
        for pid in reversed(tree(process.pid)):
            subprocess.run(["kill", "-9", str(pid)], check=True)
        process.wait()
    assert held(process.pid) == 0


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_row_is_played_side_by_side_and_every_action_happens_once(tmp_path):
    found = measure(replace(ROWS["till"], tasks=4, attempts=8), tmp_path)
    # 3 prices, 2 sums and the answer
    assert (found.attempts, found.solved, found.lost, found.claimed, found.done, found.once) == (8, 8, 0, 48, 48, True)
    assert found.endings == {"solved": 8}
    assert found.memory_mb > 10
    assert found.processor_s["player"] > 0.1
    assert found.a_minute == pytest.approx(60 * 8 / found.took_s)
