"""Attempts that tests play at our own repositories, and repositories with a history that they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from environments.worlds.base import Call, Outcome
from environments.worlds.repo.checking import Prepared
from environments.worlds.repo.mirrors import run_git
from environments.worlds.repo.world import RepoAttempt

SUBMIT = Call("call_2", "submit", "{}")
FIX = "sed -i 's/return items .. size/return -(-items \\/\\/ size)/' pages.py"
"""Mends our own task last-page."""


def bash(command: str) -> Call:
    return Call("call_1", "bash", json.dumps({"command": command}))


def write(path: str, text: str) -> str:
    """A command that writes a file of the checkout."""
    return f"mkdir -p $(dirname {path}); cat > {path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE"


def play(ready: Prepared, *commands: str, command_s: float = 5) -> Outcome:
    """The outcome of an attempt that runs these commands and hands in."""
    with RepoAttempt(ready, "bubblewrap", command_s) as attempt:
        for command in commands:
            if attempt.act(bash(command)).is_over:
                break
        else:
            attempt.act(SUBMIT)
        return attempt.outcome(is_truncated=False)


def commit(mirror: Path, files: Mapping[str, str]) -> str:
    """Commit files in a plain repository of the host, made where there is none; the commit's number."""
    mirror.mkdir(parents=True, exist_ok=True)
    if not (mirror / ".git").exists():
        run_git(mirror, "init", "--quiet")
    for name, text in files.items():
        (mirror / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror / name).write_text(text)
    run_git(mirror, "add", "--all")
    run_git(mirror, "commit", "--quiet", "--allow-empty", "--message=a change")
    return run_git(mirror, "rev-parse", "HEAD").decode().strip()


def diff(mirror: Path, old: str, new: str) -> str:
    return run_git(mirror, "diff", old, new).decode()
