"""A whole stack of real processes on the tiny model, and what its database says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.stack import Stack, running_stack

BATCH = 3
RECIPE = {"batch_size": BATCH, "updates": 60, "distillation": "token", "max_gap": 5.0}


class Talk:
    """A client with a key, and a look into the tables."""

    def __init__(self, stack: Stack, key: str) -> None:
        self.stack = stack
        self.http = httpx.Client(
            base_url=f"{stack.url}/v1", headers={"Authorization": f"Bearer {key}"}, timeout=httpx.Timeout(90)
        )

    def ask(self, text: str, **options: Any) -> dict[str, Any]:
        """One whole reply. The tiny model never ends by itself, so it stops at the first of some letters."""
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 300, "stop": list("aeio"), **options}
        answer = self.http.post("/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def say(self, completion: str, **said: Any) -> None:
        """Feedback that the server has acknowledged."""
        answer = self.http.post("/feedback", json={"completion_id": completion, **said})
        assert answer.status_code == 200, answer.text

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.stack.data_dir / "talkback.sqlite3", timeout=30)) as database, database:
            return database.execute(sql, values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        return self.rows(sql, *values)[0][0]

    def turn(self, completion: str) -> dict[str, Any]:
        """The turn, its judgement's number of rows, and the states of all samples ever made of it."""
        key, status, reason, error = self.rows(
            "SELECT id, status, finish_reason, error FROM chat_turn WHERE completion_id = ?", completion
        )[0]
        judgements = self.one("SELECT count(*) FROM judge_judgement WHERE turn_id = ?", key)
        return {"id": key, "status": status, "finish_reason": reason, "error": error, "judgements": judgements}

    def a_while_later(self) -> None:
        """Let the time pass after which what no worker has in hand counts as left behind."""
        self.rows("UPDATE chat_turn SET moved_at = datetime(moved_at, '-10 minutes')")
        self.rows("UPDATE judge_sitting SET until = datetime(until, '-10 minutes')")
        self.rows("UPDATE training_run SET heartbeat_at = datetime(heartbeat_at, '-10 minutes')")


@pytest.fixture(scope="module")
def stack(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("kill"), tiny_model, RECIPE, CALIBRATION_VOTES="0") as stack:
        yield stack


@pytest.fixture(scope="module")
def talk(stack: Stack) -> Iterator[Talk]:
    key = stack.manage("create_key", "--name", "kill").strip().splitlines()[-1]
    talk = Talk(stack, key)
    yield talk
    talk.http.close()
