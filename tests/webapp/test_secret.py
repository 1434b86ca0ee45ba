"""A secret that all know signs nothing: no server starts with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def started(tmp_path: Path, *command: str, secret: str) -> subprocess.CompletedProcess[str]:
    """A process as it runs in earnest, with nothing set but its folder and its secret."""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "ENV_FILE": os.devnull,
        "DATABASE_URL": "",
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": secret,
    }
    return subprocess.run(
        [sys.executable, *command], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("secret", ["", "only-for-tests-and-builds"])
def test_nothing_is_served_without_a_secret_of_its_own(tmp_path, secret):
    done = started(tmp_path, "-c", "import webapp.asgi", secret=secret)
    assert done.returncode != 0
    last = done.stderr.splitlines()[-1]
    assert "Nothing is served without a SECRET_KEY of its own" in last
    assert "secrets.token_urlsafe" in last  # what to do


def test_with_one_it_is(tmp_path):
    done = started(tmp_path, "-c", "import webapp.asgi", secret="of-a-test")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [("collectstatic", "--no-input"), ("migrate", "--no-input")])
def test_an_image_is_built_and_its_tables_made_without_one(tmp_path, command):
    done = started(tmp_path, "manage.py", *command, secret="")
    assert done.returncode == 0, done.stderr
