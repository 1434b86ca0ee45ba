"""A night of real processes: 128 attempts at once, a player that is killed, and one that is stopped."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.stack import PYTHON, Stack, wait_for
from environments.worlds.till import Till
from tests.environments.worlds.conftest import script_of

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

SEEDS = (1, 2, 3)
GROUPS, ATTEMPTS = 16, 8


class Till128(Stack):
    """Redis, a scripted engine that solves the tasks of SEEDS, and web."""

    def __init__(self, data_dir: Path, model: Path) -> None:
        super().__init__(data_dir, model, SESSION_IDLE_S="600")
        prices = {task.id: task.data["prices"] for seed in SEEDS for task in Till().tasks("train", GROUPS, seed)}
        (data_dir / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script_of(prices)))

    @property
    def commands(self) -> dict[str, list[str]]:
        usual = super().commands
        engine = [PYTHON, "-m", "benchmarks.scripted", "--model", str(self.model), "--port", str(self.engine_port)]
        script = ["--script", str(self.data_dir / "script.jsonl"), "--tokens-per-second", "0"]
        return {"redis": usual["redis"], "engine": [*engine, *script], "web": usual["web"]}

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
        sql = """SELECT count(*) FROM episodes_action a JOIN episodes_episode e ON e.id = a.episode_id
                 JOIN episodes_group g ON g.id = e.group_id WHERE g.name LIKE ?"""
        wait_for(f"{number} actions", lambda: self.rows(sql, f"seed-{seed}/%")[0][0] >= number)

    def endings(self, seed: int) -> dict[str, int]:
        sql = """SELECT e.ending, count(*) FROM episodes_episode e JOIN episodes_group g ON g.id = e.group_id
                 WHERE g.name LIKE ? GROUP BY e.ending"""
        return dict(self.rows(sql, f"seed-{seed}/%"))


@pytest.fixture(scope="module")
def stack(wide_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Till128]:
    stack = Till128(tmp_path_factory.mktemp("night"), wide_model)
    try:
        stack.manage("migrate", "-v", "0")
        stack.key = stack.manage("create_key", "--name", "p", "--scope", "chat", "--scope", "episodes").split()[-1]
        stack.start()
        stack.wait_for_web()
        yield stack
    except BaseException:
        print(stack.log("web"))
        raise
    finally:
        stack.stop()


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_128_attempts_at_once_are_each_played_once(stack):
    out, err = stack.player(seed=1, parallel=128).communicate(timeout=280)
    played = lines(out)
    assert (len(played), {one["status"] for one in played}) == (128, {"solved"}), err
    assert len({(one["task"], one["attempt"]) for one in played}) == 128
    assert stack.endings(1) == {"solved": 128}
    # 3 prices, 2 sums and the answer, each done once
    assert stack.rows("SELECT count(*), count(DISTINCT turn_id) FROM episodes_action") == [(768, 768)]
    assert err.splitlines()[-1].startswith("128 of 128 attempts, 128 of 128 solved")


def test_a_player_and_a_web_that_are_killed_lose_no_attempt_and_play_none_twice(stack):
    first = stack.player("--lease", "20", seed=2)
    stack.wait_for_actions(2, 150)
    first.kill()
    early = lines(first.communicate()[0])
    second = stack.player("--lease", "20", seed=2)
    stack.wait_for_actions(2, 400)
    stack.kill("web")
    stack.start("web")
    out, err = second.communicate(timeout=280)
    late = lines(out)
    assert second.returncode == 0, err

    def lapse() -> bool:
        stack.manage("shell", "-c", "from episodes.lapses import close_lapsed; close_lapsed()")
        return "" not in stack.endings(2)

    wait_for("leases of the killed player have lapsed", lapse, every_s=3)
    solved = {(one["task"], one["attempt"]) for one in (*early, *late) if one["status"] == "solved"}
    before = {(one["task"], one["attempt"]) for one in late if one["status"] == "before"}
    assert len(late) == GROUPS * ATTEMPTS == len({(one["task"], one["attempt"]) for one in late})
    assert {one["status"] for one in late} <= {"solved", "before", "left", "infra_error"}
    endings = stack.endings(2)
    assert sum(endings.values()) == GROUPS * ATTEMPTS
    assert set(endings) == {"solved", "infra_error"}
    assert endings["infra_error"] <= 16 + 16  # what was played when the player died, and when web did
    assert before
    # an answer that told of an end may have died with the first player: its attempt is solved all the same
    assert len(solved) <= endings["solved"] <= len(solved | before)
    lost = stack.rows("SELECT reason FROM episodes_episode WHERE ending = 'infra_error'")
    told = [one["reason"] for one in late if one["status"] == "infra_error"]
    assert len([reason for (reason,) in lost if reason]) + len(told) == len(lost)
    twice = "SELECT count(*) FROM episodes_action GROUP BY turn_id, call HAVING count(*) > 1"
    assert stack.rows(twice) == []


def test_a_player_that_is_interrupted_ends_in_good_order_and_goes_on(stack):
    first = stack.player(seed=3, parallel=64)
    stack.wait_for_actions(3, 150)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "The same command goes on" in err
    cancelled = [one for one in lines(out) if one["status"] == "cancelled"]
    assert cancelled
    assert set(stack.endings(3)) <= {"solved", "cancelled"}
    late = lines(stack.player(seed=3).communicate(timeout=280)[0])
    assert {one["status"] for one in late} <= {"before", "solved"}
    endings = stack.endings(3)
    assert sum(endings.values()) == GROUPS * ATTEMPTS
    assert endings["cancelled"] >= len(cancelled)
