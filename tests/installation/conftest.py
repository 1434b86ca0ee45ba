"""The installation as a person meets it: a command in a shell, with settings in front."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installation.places import ROOT
from installation.settings import KEPT

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of an operator who has set nothing but DATA_DIR."""
    ours = {*KEPT, "PORT", "HOST", "ENV_FILE", "DJANGO_SETTINGS_MODULE", "SECRET_KEY", "API_KEY"}
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return clean | {"DATA_DIR": str(tmp_path / "data")}


@pytest.fixture
def command(shell: dict[str, str]) -> Command:
    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "installation", *arguments],
            cwd=ROOT,
            env=shell | settings,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]
