"""Task folders that tests make, and calls of the tools."""

from __future__ import annotations

import json
from pathlib import Path

from environments.worlds.base import Call
from environments.worlds.harbor.checking import checked
from environments.worlds.harbor.prepared import Prepared, prepare, read

REWARD = "/logs/verifier/reward.txt"
TOML = 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\nmemory_mb = 128\nstorage_mb = 8\n'
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /app\n"
TEST = f"""
says() {{ [ "$(cat "$1" 2> /dev/null)" = "$2" ]; }}
says /app/answer.txt right && echo 1 > {REWARD} || echo 0 > {REWARD}
"""
"""Scores 1 where answer.txt says right, else 0."""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def task(folder: Path, toml: str = TOML, **files: str) -> Path:
    """A task of Harbor's form. Names of files: `dockerfile`, `test`, `solve`, `instruction`, or a path by `more`."""
    return write(
        folder,
        {
            "task.toml": toml,
            "instruction.md": files.get("instruction", "Write the word right to /app/answer.txt."),
            "environment/Dockerfile": files.get("dockerfile", DOCKERFILE),
            "tests/test.sh": files.get("test", TEST),
            "solution/solve.sh": files.get("solve", "echo right > /app/answer.txt"),
        },
    )


def prepared(folder: Path) -> Prepared:
    return prepare(read(folder), "bubblewrap")


def reason(folder: Path) -> str:
    """Why a task cannot be played; empty where it can."""
    return checked(read(folder), "bubblewrap")[0].reason


def bash(command: str) -> Call:
    return Call("call_1", "bash", json.dumps({"command": command}))


DONE = Call("call_2", "done", "{}")
