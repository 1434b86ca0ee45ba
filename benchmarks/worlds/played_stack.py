"""A stack on which worlds are played: Redis, web, and an engine that follows a script."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from benchmarks.scripted.command import scripted_command
from benchmarks.stack import Stack, wait_for


class PlayedStack(Stack):
    """Redis, a scripted engine and web; judges and beat wait to be started."""

    def __init__(self, data_dir: Path, model: Path, script: Iterable[Mapping[str, Any]], **environment: str) -> None:
        """`script` has lines for the scripted engine (benchmarks.scripted)."""
        super().__init__(data_dir, model, SESSION_IDLE_S="600", **environment)
        (data_dir / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script))
        self.key = ""

    @property
    def commands(self) -> dict[str, list[str]]:
        usual = super().commands
        script = ("--script", str(self.data_dir / "script.jsonl"), "--tokens-per-second", "0")
        engine = scripted_command(str(self.model), self.engine_port, more=script)
        return {"redis": usual["redis"], "engine": engine, **{name: usual[name] for name in ("web", "judge", "beat")}}

    def open(self) -> None:
        """Start redis, engine and web, with a key for the player."""
        self.manage("migrate", "-v", "0")
        self.key = self.manage("create_key", "--name", "p", "--scope", "chat", "--scope", "episodes").split()[-1]
        self.start("redis", "engine", "web")
        self.wait_for_web()

    def player(self, world: str, *more: str, **environment: str) -> subprocess.Popen[str]:
        """Start a player, which prints a JSON line an attempt."""
        command = [sys.executable, "-m", "environments", "worlds", "play", "--world", world, "--url", self.url]
        given = {"TALKBACK_KEY": self.key, "PYTHONPATH": self.environment["PYTHONPATH"], **environment}
        return subprocess.Popen(
            [*command, "--json", *more],
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.data_dir,
        )

    def wait_for_web(self) -> None:
        wait_for("web answers", lambda: httpx.get(f"{self.url}/healthz").status_code == 200)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.data_dir / "talkback.sqlite3", timeout=30)) as database:
            return database.execute(sql, values).fetchall()
