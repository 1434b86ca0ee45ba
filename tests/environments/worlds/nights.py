"""A stack on which a night of till is played: real processes, and an engine that follows a script."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from benchmarks.stack import PYTHON, Stack, wait_for
from environments.worlds.till import Till
from tests.environments.worlds.conftest import script_of

SEEDS = (1, 2, 3, 4)
GROUPS, ATTEMPTS = 16, 8


class Till128(Stack):
    """Redis, a scripted engine that solves the tasks of SEEDS, and web; judges and beat wait to be started."""

    def __init__(self, data_dir: Path, model: Path) -> None:
        super().__init__(data_dir, model, SESSION_IDLE_S="600")
        prices = {task.id: task.data["prices"] for seed in SEEDS for task in Till().tasks("train", GROUPS, seed)}
        (data_dir / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script_of(prices)))

    @property
    def commands(self) -> dict[str, list[str]]:
        usual = super().commands
        engine = [PYTHON, "-m", "benchmarks.scripted", "--model", str(self.model), "--port", str(self.engine_port)]
        script = ["--script", str(self.data_dir / "script.jsonl"), "--tokens-per-second", "0"]
        rest = {name: usual[name] for name in ("web", "judge", "beat")}
        return {"redis": usual["redis"], "engine": [*engine, *script], **rest}

    def open(self) -> None:
        """Start redis, engine and web, with a key for the player."""
        self.manage("migrate", "-v", "0")
        self.key = self.manage("create_key", "--name", "p", "--scope", "chat", "--scope", "episodes").split()[-1]
        self.start("redis", "engine", "web")
        self.wait_for_web()

    def player(self, *more: str, seed: int, parallel: int = 16) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "environments", "worlds", "play", "--world", "till", "--url", self.url]
        night = ["--groups", str(GROUPS), "--attempts", str(ATTEMPTS), "--parallel", str(parallel), "--seed", str(seed)]
        return subprocess.Popen(
            [*command, *night, "--max-tokens", "96", "--json", *more],
            env={**os.environ, "TALKBACK_KEY": self.key, "PYTHONPATH": self.environment["PYTHONPATH"]},
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

    def wait_for_actions(self, seed: int, number: int) -> None:
        wait_for(f"{number} actions", lambda: self.actions(seed) >= number)

    def actions(self, seed: int) -> int:
        sql = """SELECT count(*) FROM episodes_action a JOIN episodes_episode e ON e.id = a.episode_id
                 JOIN episodes_group g ON g.id = e.group_id WHERE g.name LIKE ?"""
        return int(self.rows(sql, f"seed-{seed}/%")[0][0])

    def endings(self, seed: int) -> dict[str, int]:
        sql = """SELECT e.ending, count(*) FROM episodes_episode e JOIN episodes_group g ON g.id = e.group_id
                 WHERE g.name LIKE ? GROUP BY e.ending"""
        return dict(self.rows(sql, f"seed-{seed}/%"))
