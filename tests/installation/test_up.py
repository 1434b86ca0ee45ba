"""`make up` for real, in a terminal: what it prints works, and Ctrl-C or a closed terminal leaves nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.patience import Patience
from installation.places import PYTHON, ROOT
from installation.supervision import MARK
from tests.installation.conftest import Command

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
DEADLINE_S = 240
READY = "Ctrl-C stops everything"


class Terminal:
    """A terminal with `make up` in its foreground."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.data_dir, self.port = Path(environment["DATA_DIR"]), environment["PORT"]
        self.master, slave = os.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            ["make", "up", f"PYTHON={PYTHON}"],
            cwd=ROOT,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # what it types Ctrl-C to
        )
        os.close(slave)

    def read_until(self, words: str) -> str:
        patience = Patience(DEADLINE_S)
        while words not in self.text:
            assert not patience.is_over, f"{words!r} was never printed:\n{self.text}"
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace").replace("\r\n", "\n")
                except OSError:  # everybody has left the terminal
                    raise AssertionError(f"it ended without {words!r}:\n{self.text}") from None
        return self.text

    def press_ctrl_c(self) -> None:
        os.write(self.master, b"\x03")

    def close(self) -> None:
        if self.master >= 0:
            os.close(self.master)
        self.master = -1

    def marked(self) -> list[int]:
        """Everything that runs with this installation's mark."""
        mark, found = f"{MARK}={self.data_dir}".encode(), []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
            except OSError:  # it ended, or is another user's
                continue
        return found


def eventually(claim: str, look: Callable[[], object]) -> None:
    patience = Patience(60)
    while not look():
        assert not patience.is_over, claim
        select.select([], [], [], 0.2)


@pytest.fixture
def start(shell: dict[str, str], tiny_model: Path) -> Iterator[Callable[[], Terminal]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    terminals: list[Terminal] = []

    def run() -> Terminal:
        terminals.append(Terminal(shell | {"PORT": port, "MODEL": str(tiny_model)}))
        return terminals[-1]

    yield run
    subprocess.run([sys.executable, "-m", "installation", "down"], cwd=ROOT, env=shell, check=True, capture_output=True)
    for terminal in terminals:
        terminal.close()
        terminal.process.wait(60)


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_it_prints_works_and_ctrl_c_stops_all_of_it_and_nothing_else(
    start: Callable[[], Terminal], command: Command
):
    terminal = start()
    text = terminal.read_until(READY)
    address = f"http://localhost:{terminal.port}"

    # the link signs the administrator in, once
    link = re.search(rf"{address}/enter/\S+", text)
    assert link
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(link[0])
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
        assert token
        assert browser.post(link[0], data={"csrfmiddlewaretoken": token[1]}).status_code == 200
        assert browser.get(f"{address}/console/").status_code == 200
        assert f"\n{address}/connect/ " in text
        assert browser.get(f"{address}/connect/").status_code == 200
    assert httpx.get(link[0]).status_code == 410
    assert httpx.get(f"http://127.0.0.1:{terminal.port}/healthz").status_code == 200  # clients may name the number

    # the curl, as it stands
    curl = re.search(r"^  (curl .*?\\\n.*)$", text, re.MULTILINE)
    assert curl
    answered = subprocess.run(["sh", "-c", curl[1]], capture_output=True, text=True, timeout=120)
    assert json.loads(answered.stdout)["choices"][0]["message"]["role"] == "assistant", answered.stdout

    # the block for OpenClaw
    block = json.loads(text[text.index("\n{\n") : text.index("\n}\n") + 2])
    provider = block["models"]["providers"]["talkback"]
    key = {"Authorization": f"Bearer {provider['apiKey']}"}
    assert [model["id"] for model in httpx.get(f"{provider['baseUrl']}/models", headers=key).json()["data"]]

    # a second one on the same folder is refused, and doctor finds all well
    refused = command("up", PORT="1")
    assert "Talkback already runs on" in refused.stderr
    assert command("doctor").returncode == 0

    # a process that is killed comes back
    web = next(
        pid for pid in terminal.marked() if b"webapp.serving.web_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(web, signal.SIGKILL)
    eventually("web came back", lambda: answers(f"{address}/healthz") and web not in terminal.marked())

    with bystander() as other:
        terminal.press_ctrl_c()
        terminal.read_until("Stopped.")
        terminal.process.wait(60)
        assert terminal.marked() == []
        assert other.poll() is None
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(terminal.port)))


def test_a_closed_terminal_stops_everything_and_the_next_start_keeps_what_was_made(start: Callable[[], Terminal]):
    first = start()
    key = re.search(r"Bearer (\S+)'", first.read_until(READY))
    assert key

    first.close()
    first.process.wait(60)
    eventually("nothing of it runs", lambda: not first.marked())

    began = time.monotonic()
    second = start()
    assert key[1] in second.read_until(READY)
    assert "packages" not in second.text  # nothing was installed again
    assert time.monotonic() - began < 60


def test_a_start_after_kill_9_clears_what_was_left(start: Callable[[], Terminal]):
    first = start()
    first.read_until(READY)
    left = set(first.marked())
    owner = int((first.data_dir / "lock").read_text())
    os.kill(owner, signal.SIGKILL)
    first.process.wait(60)
    assert left & set(first.marked())  # orphans, still at work

    second = start()

    assert "that an earlier start had left behind" in second.read_until(READY)
    assert not left & set(second.marked())


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False
