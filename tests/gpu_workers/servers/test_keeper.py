"""A server that is kept is started again with patience, and what it said last can be read."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gpu_workers.servers import keeper
from gpu_workers.servers.keeper import Keeper
from installation.findings import free_port
from tests.conftest import ROOT

# Says its key, as SGLang does, is ready once, and ends.
SERVER = """
import http.server, os, sys
print("server_args: api_key=s3cret", flush=True)
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        print("out of memory", flush=True)
        os._exit(3)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""
SITS = """
import http.server, sys
class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Ready).serve_forever()
"""


def test_one_that_ends_again_and_again_is_given_more_time_each_time(tmp_path: Path) -> None:
    port, pauses, said = free_port(), [], io.BytesIO()

    def wait(pause_s: float) -> bool:
        pauses.append(pause_s)
        return len(pauses) == 4

    kept = Keeper(
        [sys.executable, "-c", SERVER, str(port)],
        f"http://127.0.0.1:{port}",
        keeper.record_of(tmp_path, port),
        secrets=["s3cret"],
        output=said,
        wait=wait,
    )
    seen: list[dict[str, object]] = []
    write = kept._write
    kept._write = lambda state, **more: (write(state, **more), seen.append(keeper.read(tmp_path, port)))  # type: ignore[assignment, func-returns-value]

    assert kept.run() == 0

    assert pauses == [1.0, 2.0, 4.0, 8.0]
    ends = [told for told in seen if told["state"] == "ended"]
    assert [(told["ends"], told["status"]) for told in ends] == [(1, 3), (2, 3), (3, 3), (4, 3)]
    assert "out of memory" in ends[-1]["last_words"]  # type: ignore[operator]
    assert "s3cret" not in json.dumps(seen)
    assert b"s3cret" not in said.getvalue()
    assert keeper.read(tmp_path, port) == {}  # it is not kept any more


def test_one_that_never_was_ready_is_reported_at_once(tmp_path: Path) -> None:
    kept = Keeper(
        [sys.executable, "-c", "raise SystemExit('no such model')"],
        "http://127.0.0.1:1",
        keeper.record_of(tmp_path, 1),
        output=io.BytesIO(),
    )

    assert kept.run() == 1
    told = keeper.read(tmp_path, 1)
    assert (told["state"], told["last_words"]) == ("ended", ["no such model"])


def test_ending_the_keeper_ends_the_server(tmp_path: Path) -> None:
    port = free_port()
    command, record = [sys.executable, "-c", SITS, str(port)], keeper.record_of(tmp_path, port)
    kept = Keeper(command, f"http://127.0.0.1:{port}", record, output=io.BytesIO())
    pids: list[int] = []
    write = kept._write

    def written(state: str, **more: object) -> None:
        write(state, **more)
        if state == "ready":
            pids.append(int(keeper.read(tmp_path, port)["pid"]))
            kept.end()

    kept._write = written  # type: ignore[method-assign]
    assert kept.run() == 0
    assert not psutil.pid_exists(pids[0])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells a child of its parent's death on Linux alone")
def test_a_keeper_that_is_killed_takes_the_server_with_it(tmp_path: Path) -> None:
    port = free_port()
    environment = os.environ | {"SGLANG": str(tmp_path / "sglang"), "DATA_DIR": str(tmp_path)}
    environment |= {"ENGINE_API_KEY": "plain", "ENGINE_ADMIN_KEY": "admin"}
    # Stands in for SGLang's program: it is given our launch line, and listens where that says.
    program = tmp_path / "sglang"
    listens = SITS.replace("int(sys.argv[1])", "int(sys.argv[sys.argv.index('--port') + 1])")
    program.write_text(f"#!{sys.executable}\n{listens}\n")
    program.chmod(0o700)
    ours = [sys.executable, "-m", "gpu_workers.servers.serving", "gpu", "--model", "m", "--port", str(port)]
    process = subprocess.Popen(ours, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        while keeper.read(tmp_path, port).get("state") != "ready":
            assert process.poll() is None
        server = psutil.Process(keeper.read(tmp_path, port)["pid"])
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        psutil.wait_procs([server], timeout=60)
        assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    finally:
        process.kill()
        process.wait()
