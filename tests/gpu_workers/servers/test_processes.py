"""A server of ours lives as long as it is wanted and not longer."""

from __future__ import annotations

import os
import signal
import ssl
import sys
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from gpu_workers.errors import EngineUnavailable
from gpu_workers.servers.processes import EngineProcess, sglang_command
from installation.diagnosis import free_port

SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
# The same with a child that only ends when it is killed: what is ignored when a process starts, it ignores too.
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + SERVER.replace(
    "print(", "signal.signal(signal.SIGTERM, signal.SIG_DFL)\nprint("
)


def test_it_is_ready_inside_and_gone_with_its_children_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(
        ssl, "create_default_context", lambda **how: read.append(how) or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    port, log = free_port(), tmp_path / "log"
    with EngineProcess([sys.executable, "-c", SERVER, str(port)], f"http://127.0.0.1:{port}", log) as process:
        assert process.is_ready()
        assert process.is_alive()
        child = int(log.read_text().split()[1])

    assert not process.is_alive()
    assert not _runs(child)
    assert read == []  # certificates, of which each look would read all


def test_children_that_take_their_time_to_die_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process is there until its memory is given back: here until it was looked for a third time."""
    port, log, kill, seen = free_port(), tmp_path / "log", os.killpg, []

    def slowly(group: int, kind: int) -> None:
        seen.append(kind)
        if kind == 0 and seen.count(0) == 3:
            kill(group, signal.SIGKILL)
        elif kind != signal.SIGKILL:
            kill(group, kind)

    with EngineProcess([sys.executable, "-c", DEAF, str(port)], f"http://127.0.0.1:{port}", log):
        monkeypatch.setattr(os, "killpg", slowly)
        child = int(log.read_text().split()[1])

    assert seen[:5] == [signal.SIGTERM, signal.SIGKILL, 0, 0, 0]
    assert not _runs(child)


def test_children_that_do_not_die_are_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port, log, kill = free_port(), tmp_path / "log", os.killpg
    process = EngineProcess([sys.executable, "-c", DEAF, str(port)], f"http://127.0.0.1:{port}", log)
    process.start()
    child = int(log.read_text().split()[1])
    monkeypatch.setattr(os, "killpg", lambda group, kind: kill(group, kind) if kind != signal.SIGKILL else None)

    process.stop(grace_s=1)

    assert _runs(child)
    assert "have not ended" in caplog.text
    psutil.Process(child).kill()


def test_one_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such model')"]

    with pytest.raises(EngineUnavailable, match="no such model"):
        EngineProcess(command, f"http://127.0.0.1:{free_port()}", tmp_path / "log").start()


def test_one_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
    process = EngineProcess(command, f"http://127.0.0.1:{free_port()}", tmp_path / "log", ready_within_s=2)

    with pytest.raises(EngineUnavailable, match="did not start"):
        process.start()

    assert not _runs(int((tmp_path / "log").read_text()))


def test_the_launch_line_gives_both_keys_and_lets_adapters_in() -> None:
    command = sglang_command("model", 30000, api_key="plain", admin_key="secret")

    pairs = dict(pairwise(command))
    assert (pairs["--api-key"], pairs["--admin-api-key"]) == ("plain", "secret")
    assert {"--enable-lora", "--enable-priority-scheduling", "--enable-metrics"} <= set(command)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
