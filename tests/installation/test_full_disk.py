"""A full disk costs lines of a log, and no process: the real supervisor on a small disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.patience import Patience
from installation import supervision
from installation.places import ROOT
from installation.supervision import Program
from tests.disks import fill

TALKS = """
import sys, time
for number in range(10**9):
    print(f"line {number} " + "x" * 1000, flush=True)
    open(sys.argv[1], "w").write(str(number))
    time.sleep(0.002)
"""
"""A process that says a thousand letters, and then notes elsewhere how far it has come."""


class Supervised:
    def __init__(self, data_dir: Path, elsewhere: Path) -> None:
        self.logs, self.elsewhere = data_dir / "log", elsewhere
        self.logs.mkdir()
        configuration = supervision.write_supervisor_configuration(settings_of())
        self.process = supervision.start_supervisor(configuration, dict(os.environ))

    def come(self, name: str) -> int:
        """How far a process has come."""
        try:
            return int((self.elsewhere / name).read_text() or 0)
        except (OSError, ValueError):
            return 0


def settings_of() -> dict[str, str]:
    return {"PROFILE": "embedded", "MODEL": "m", "HOST": "127.0.0.1", "PORT": "1"}


def wait_for(what: str, look: Callable[[], object]) -> None:
    patience = Patience(30)
    while not look():
        assert not patience.is_over, what
        time.sleep(0.05)


@pytest.fixture
def supervised(small_disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervised]:
    data_dir, elsewhere = small_disk(4), tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(supervision, "DATA_DIR", data_dir)
    monkeypatch.setattr(supervision, "LOGS", data_dir / "log")
    (elsewhere / "talks.py").write_text(TALKS)
    command = [sys.executable, str(elsewhere / "talks.py")]
    talks = [Program(name, [*command, str(elsewhere / name)]) for name in ("web", "other")]
    monkeypatch.setattr(supervision, "programs", lambda settings: talks)
    supervised = Supervised(data_dir, elsewhere)
    yield supervised
    supervised.process.terminate()
    supervised.process.wait(30)


@pytest.mark.small_disk
def test_a_full_disk_stops_no_process_and_logs_go_on_once_there_is_room(supervised: Supervised):
    wait_for("both talk", lambda: supervised.come("web") > 10 and supervised.come("other") > 10)
    filler = fill(supervised.logs.parent)
    stood = supervised.come("web")

    # A pipe holds 64 KB, so a process that is not read stands still after 65 lines of a thousand letters.
    wait_for("web goes on", lambda: supervised.come("web") > stood + 300)
    states = supervision.process_states()  # the supervisor answers
    before = states["other"]["pid"]
    os.kill(before, 9)  # it logs that, and starts it again, with a log that cannot be written
    wait_for(
        "other is started again",
        lambda: supervision.process_states()["other"]["pid"] not in (0, before) and supervised.come("other") > 0,
    )
    assert supervised.process.poll() is None

    filler.unlink()
    size = (supervised.logs / "web.log").stat().st_size
    wait_for("web's log grows again", lambda: (supervised.logs / "web.log").stat().st_size > size + 5000)
    assert supervised.process.poll() is None


def test_a_log_is_turned_over_and_a_place_that_takes_none_is_borne(tmp_path: Path):
    script = f"""
from supervisor import loggers
from installation.supervisor import Log
loggers.RotatingFileHandler = loggers.FileHandler = Log
def logger(name):
    made = loggers.getLogger()
    loggers.handle_file(made, name, "%(message)s", rotating=True, maxbytes=100, backups=2)
    return made
kept, full, nowhere = logger({str(tmp_path / "a.log")!r}), logger("/dev/full"), logger("/nowhere/at/all.log")
for number in range(30):
    for one in (kept, full, nowhere):
        one.info(f"line {{number:02d}}\\n".encode())
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # 8 bytes a line: 13 of them are the first to reach 100. Of 30 the last 4 are in a.log, 13 in each of the others.
    assert (tmp_path / "a.log").read_text().splitlines() == [f"line {number}" for number in range(26, 30)]
    assert (tmp_path / "a.log.1").read_text().splitlines()[0] == "line 13"
    assert (tmp_path / "a.log.2").read_text().splitlines()[0] == "line 00"


def test_beat_keeps_nothing_on_the_disk():
    (beat,) = [one for one in supervision.programs(settings_of()) if one.name == "beat"]
    assert beat.command[-6:-4] == ["--scheduler", "celery.beat:Scheduler"]
    assert str(supervision.DATA_DIR) not in " ".join(beat.command[1:])
