"""One Chromium for all tests of a process: to start one takes longer than most of them, and a context is as fresh."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from installation import findings

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


class Chromium:
    """Playwright's own server before it, which a test connects to. Who disconnects takes their contexts along."""

    def __init__(self, folder: Path) -> None:
        self._settings = folder / "chromium.json"
        self._settings.write_text(json.dumps({"executablePath": str(findings.chromium()), "args": ARGUMENTS}))
        self._server: subprocess.Popen[str] | None = None
        self._address = ""

    @property
    def address(self) -> str:
        """Where it listens; it is started where it does not run."""
        if self._server is None or self._server.poll() is not None:
            self.close()
            command = [sys.executable, "-m", "playwright", "launch-server", "--browser", "chromium"]
            self._server = subprocess.Popen(
                [*command, "--config", str(self._settings)], stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert self._server.stdout is not None
            self._address = self._server.stdout.readline().strip()
            assert self._address.startswith("ws://"), f"Chromium did not start: {self._address!r}"
        return self._address

    def close(self) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGTERM)
            self._server.wait(timeout=30)
            self._server = None


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    made = Chromium(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()
