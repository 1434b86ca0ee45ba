"""Which code this is: what a run writes down, so that its weights can say what took their steps."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from django.conf import settings

PATIENCE_S = 10
"""How long git may think about it."""


@cache
def ours() -> str:
    """Version of Talkback, with the commit where this is a checkout: "0.4.0 (git 1a2b3c4d5e6f, changed)". "changed"
    is said of a tree with changes that are in no commit. Read once a process."""
    try:
        said = version("talkback")
    except PackageNotFoundError:
        said = "unknown"
    if not (Path(settings.BASE_DIR) / ".git").exists():
        return said
    command = ["git", "-C", str(settings.BASE_DIR), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return said
    commit, _, dirty = asked.stdout.strip().partition("-")
    return f"{said} (git {commit}{', changed' if dirty else ''})" if asked.returncode == 0 and commit else said
