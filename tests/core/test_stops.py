"""What a stop leaves time for, what it hands back, and when the process ends all the same."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from benchmarks.stack import ROOT
from core.stops import USUAL_S, Stopped, Watch, limit_s


def watch(limit_s: float) -> Watch:
    return Watch(limit_s, end=lambda status: None)


def test_before_a_stop_all_work_may_go_on():
    assert not watch(30).is_asked
    watch(30).check(math.inf)


def test_what_ends_in_time_is_finished_and_the_rest_is_not_begun():
    asked = watch(30)
    asked.ask()
    asked.check(19)  # 30 s, less 5 s to the kill and 5 s for the end of the process
    with pytest.raises(Stopped):
        asked.check(21)
    with pytest.raises(Stopped):
        asked.check(math.inf)


def test_a_short_limit_keeps_a_sixth_of_it_twice():
    asked = watch(12)
    asked.ask()
    asked.check(7.5)
    with pytest.raises(Stopped):
        asked.check(8.5)


def test_a_second_request_leaves_time_for_nothing_but_what_is_done():
    asked = watch(30)
    asked.ask()
    asked.ask()
    asked.check(0)
    with pytest.raises(Stopped):
        asked.check(0.001)


def wait_for(process: subprocess.Popen[bytes], file: Path) -> None:
    """Wait until the process has written this file."""
    while not file.exists():
        assert process.poll() in (None, 0)
        time.sleep(0.02)


HANGS = """
import pathlib, signal, sys, time
from core import stops
folder, database = pathlib.Path(sys.argv[1]), sys.argv[2]
watch = stops.watch()
heard = []

def hear(number, frame):
    heard.append(number)
    watch.ask()
    (folder / f"heard {len(heard)}").touch()

signal.signal(signal.SIGTERM, hear)

def fail():
    raise OSError("no such row")

def release():
    (folder / "handed back").touch()
    if database == "hangs":
        time.sleep(1000)

with stops.handing_back(lambda: (folder / "done already").touch()):
    pass
with stops.handing_back(fail), stops.handing_back(release):
    (folder / "begun").touch()
    while True:  # as work that says nothing: no signal ends it
        time.sleep(0.05)
"""


@pytest.mark.processes
@pytest.mark.parametrize("database", ["answers", "hangs"])
@pytest.mark.parametrize(("signals", "at_most_s"), [(1, 6), (2, 2.5)])
def test_work_that_never_ends_is_handed_back_and_the_process_ends_in_time(
    tmp_path: Path, database: str, signals: int, at_most_s: float
):
    process = subprocess.Popen(
        [sys.executable, "-c", HANGS, str(tmp_path), database],
        cwd=ROOT,
        env={"STOP_S": "6", "PATH": ""},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(process, tmp_path / "begun")
        began = time.monotonic()
        for count in range(1, signals + 1):  # two that arrive together would be one
            process.send_signal(signal.SIGTERM)
            wait_for(process, tmp_path / f"heard {count}")
        assert process.wait(10) == 0
        assert time.monotonic() - began < at_most_s
        assert (tmp_path / "handed back").exists()
        assert not (tmp_path / "done already").exists()
    finally:
        process.kill()


DEAF = """
import hashlib, pathlib, signal, sys
from core import stops
folder = pathlib.Path(sys.argv[1])
watch = stops.watch()
signal.signal(signal.SIGTERM, lambda number, frame: None)
watch.listen([signal.SIGTERM])
with stops.handing_back(lambda: (folder / "handed back").touch()):
    (folder / "begun").touch()
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 10**9)  # minutes within one call: no handler of Python's runs
"""


@pytest.mark.processes
def test_a_signal_is_heard_while_one_call_of_the_main_thread_goes_on(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF, str(tmp_path)],
        cwd=ROOT,
        env={"STOP_S": "6", "PATH": ""},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(process, tmp_path / "begun")
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - began < 6  # handed back after 5 s, before the kill after 6
        assert (tmp_path / "handed back").exists()
    finally:
        process.kill()


def test_the_limit_is_a_number_of_seconds_that_leaves_time_to_hand_back():
    assert limit_s({}) == limit_s({"STOP_S": ""}) == USUAL_S
    assert limit_s({"STOP_S": "90"}) == 90
    for said in ("soon", "5", "-1", "inf", "nan"):
        with pytest.raises(ValueError, match=r"STOP_S is .*: it takes a number of seconds, 6 or more"):
            limit_s({"STOP_S": said})


def test_docker_gives_every_process_of_ours_the_time_that_it_is_told():
    services = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())["services"]
    ours = {name: one for name, one in services.items() if one["image"] == "talkback"}
    assert ours.keys() == {"prepare", "web", "judge", "learn", "beat"}
    for one in ours.values():
        assert one["stop_grace_period"] == f"${{STOP_S:-{USUAL_S:g}}}s"
        assert one["environment"]["STOP_S"] == f"${{STOP_S:-{USUAL_S:g}}}"
        assert "stop_signal" not in one
