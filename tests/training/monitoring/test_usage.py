"""What a run takes of the machine, measured for real; a program stands in nvidia-smi's place."""

from __future__ import annotations

import doctest
import subprocess
import sys
import threading

import pytest

from training import batches, runs
from training.config import Recipe
from training.monitoring import usage
from training.monitoring.usage import Meter


@pytest.fixture
def card(tmp_path, monkeypatch):
    """Two cards, as nvidia-smi tells of them; the second is ours."""

    def card(body):
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb")
    card("echo '0, GPU-aaaa-1, 10, 500'; echo '1, GPU-bbbb-2, 80, 20480'")
    return card


class Looks:
    """How many updates are done, and a sign for each time that the meter asks: a row is there before it asks again."""

    def __init__(self) -> None:
        self.done = 0
        self._asked = threading.Semaphore(0)

    def __call__(self) -> int:
        self._asked.release()
        return self.done

    def wait_for(self, rows: int) -> None:
        for _ in range(rows + 1):
            assert self._asked.acquire(timeout=60)


def test_a_run_is_measured_while_it_lasts_and_no_longer(card):
    looks = Looks()
    with Meter(looks, every_s=0.01) as meter:
        looks.wait_for(1)
        first = meter.rows[0]
        looks.done = 3
        looks.wait_for(2)
        last = meter.rows[-1]
    assert first["memory_mib"] > 20  # a Python with Django and torch's neighbours
    assert (first["gpu"], first["gpu_mib"]) == (0.8, 20480.0)  # the card that is ours alone
    assert last["at_s"] >= first["at_s"]
    assert last["updates"] == 3.0
    ended = len(meter.rows)
    assert not meter._thread.is_alive()
    assert len(meter.rows) == ended


def test_a_run_keeps_what_it_took_and_when_each_update_was_done(ready, home, monkeypatch):
    monkeypatch.setattr(usage, "EVERY_S", 0.01)
    ready()
    checkpoint = runs.train(batches.learn_now(Recipe(batch_size=1, updates=2)))
    run = checkpoint.run
    assert run.usage
    assert max(row["cpu"] for row in run.usage) > 0
    assert max(row["memory_mib"] for row in run.usage) > 50  # torch alone takes more
    first, second = (step["at_s"] for step in run.metrics)
    assert 0 <= first <= second <= run.usage[-1]["at_s"] + 1


def test_cores_that_are_busy_are_counted_with_those_of_processes_that_it_started():
    meter = Meter()
    program = "import time\nwhile time.process_time() < 0.2: pass\nprint('busy', flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"busy\n"  # it has used a fifth of a second since the meter began
        meter.look()
        assert meter.rows[-1]["cpu"] > 0
        alone = usage._held(usage.psutil.Process()) / usage.MIB
        assert meter.rows[-1]["memory_mib"] > alone
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize("body", ["exit 9", "echo 'No devices were found'", "echo '1, GPU-bbbb-2, [N/A], [N/A]'"])
def test_a_card_that_does_not_tell_is_left_out_and_fails_nothing(card, body):
    card(body)
    meter = Meter()
    meter.look()
    meter.look()
    assert [row.keys() for row in meter.rows] == [{"at_s", "updates", "cpu", "memory_mib"}] * 2


def test_without_a_card_nothing_is_asked(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    meter = Meter()
    meter.look()
    assert "gpu" not in meter.rows[0]


def test_rows_stay_bounded_and_the_peak_of_memory_stays_in_them(monkeypatch):
    monkeypatch.setattr(usage, "MOST_ROWS", 8)
    held = iter([100, 900, *[200] * 100])
    monkeypatch.setattr(usage, "_held", lambda process: next(held) * usage.MIB)
    monkeypatch.setattr(usage, "_family", lambda: [usage.psutil.Process()])
    meter = Meter(every_s=2.0)
    for _ in range(40):
        meter.look()
        assert len(meter.rows) <= 8
    assert max(row["memory_mib"] for row in meter.rows) == 900.0
    # nine rows become five, so from the ninth on each fourth look halves them: 9, 13, 17, ... 37
    assert meter.every_s == 2.0 * 2**8


def test_the_docstrings_of_usage_hold():
    found = doctest.testmod(usage)
    assert found.attempted
    assert not found.failed
