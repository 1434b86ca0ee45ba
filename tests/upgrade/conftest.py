"""A data folder as the version before left it, and the same after this version's start took it over.

old.sql is what commit 6fe218b wrote: 24 chats through /v1, 39 words of feedback, two runs, checkpoint 1 rejected,
2 live, three samples that wait. Left out are the weights, the permissions and all but two rehearsals; the API keys are
made up.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections
from safetensors.numpy import load_file

from benchmarks import tiny
from tests.doubles.fake_engine import FakeEngine
from tests.kept import alone

ROOT = Path(__file__).parents[2]
KEY = "tb-old-second-key"
OLD_VOCABULARY = 49152
"""Ids of old.sql's model, SmolLM2-135M-Instruct."""


def write_old(folder: Path) -> Path:
    """Write the database that the version before left; returns its file."""
    file = folder / "talkback.sqlite3"
    with sqlite3.connect(file) as rows:
        rows.executescript(Path(__file__).with_name("old.sql").read_text())
    rows.close()
    return file


def migrate(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """What `make up` runs before it starts anything."""
    environment = {**os.environ, "ENV_FILE": os.devnull, "DATA_DIR": str(folder), "RECIPE": "", "DATABASE_URL": ""}
    return subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env=environment | settings,
        capture_output=True,
        text=True,
    )


def dump(file: Path) -> list[str]:
    with sqlite3.connect(file) as rows:
        said = [line for line in rows.iterdump() if "sqlite_stat" not in line]  # which each start measures anew
    rows.close()
    return said


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with the old database, not taken over yet."""
    write_old(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def taken_over(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The old database after this version's migrations, made once for all processes of a run; to be copied, never
    written."""
    of_process = tmp_path_factory.getbasetemp()
    folder = (of_process.parent if hasattr(request.config, "workerinput") else of_process) / "taken-over"
    folder.mkdir(exist_ok=True)
    with alone(folder / "lock"):
        if not (folder / "is-whole").exists():
            (folder / "talkback.sqlite3").unlink(missing_ok=True)
            write_old(folder)
            outcome = migrate(folder)
            assert outcome.returncode == 0, outcome.stderr
            (folder / "is-whole").touch()
    return folder / "talkback.sqlite3"


@pytest.fixture(scope="session")
def wide_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with as many ids as the old rows name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "VOCABULARY", OLD_VOCABULARY)
        folder = tiny.write_tiny_model(tmp_path_factory.mktemp("models") / "wide")
    assert len(load_file(folder / "model.safetensors")["lm_head.weight"]) == OLD_VOCABULARY
    return folder


@pytest.fixture
def house(
    taken_over: Path, tmp_path: Path, wide_model: Path, settings, engine: FakeEngine, django_db_blocker
) -> Iterator[Path]:
    """The application on a copy of the folder that was taken over; the scripted engine holds the live weights."""
    file = tmp_path / "talkback.sqlite3"
    with sqlite3.connect(taken_over) as source, sqlite3.connect(file) as copy:
        source.backup(copy)
    source.close(), copy.close()
    settings.DATA_DIR, settings.MODEL, settings.RECIPE = tmp_path, str(wide_model), ""
    name = connections.settings["default"]["NAME"]
    with django_db_blocker.unblock():
        connections.close_all()
        connections.settings["default"]["NAME"] = str(file)
        try:
            yield tmp_path
        finally:
            connections.close_all()
            connections.settings["default"]["NAME"] = name
