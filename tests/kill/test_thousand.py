"""A thousand turns, and workers that are killed at random: each turn comes to exactly one verdict."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchmarks.stack import wait_for
from tests.kill.court import ANSWERS, WORKERS, Court
from tests.postgres import cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

TURNS = 1000
KILLS = 10


@contextmanager
def database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        yield ""
    else:
        with cluster() as url:
            yield url


@contextmanager
def asking(court: Court) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """A way to run SQL in the court's database, on one connection."""
    url = court.environment["DATABASE_URL"]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(court.data_dir / "talkback.sqlite3", timeout=30, isolation_level=None)) as file:
            yield lambda sql: file.execute(sql).fetchall()
    else:
        with psycopg.connect(url, autocommit=True) as server:

            def rows(sql: str) -> list[tuple[Any, ...]]:
                cursor = server.execute(sql)  # type: ignore[arg-type]
                return cursor.fetchall() if cursor.description else []

            yield rows


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_thousand_turns_with_workers_killed_at_random_have_one_verdict_each(
    kind: str, tiny_model: Path, tmp_path: Path
):
    seed = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KILL_SEED={seed}")
    chance = random.Random(seed)
    with database(kind) as url:
        court = Court(tmp_path, tiny_model, url)
        try:
            court.manage("migrate", "-v", "0")
            court.start("redis", "engine")
            wait_for("the engine answers", court.ready, 60)
            assert court.call(str(TURNS)) == {"turns": TURNS}
            with asking(court) as rows:
                judge_them(court, chance, rows)
        except BaseException:
            for name in court.logs:
                print(f"--- {name}\n{court.log(name)}")
            raise
        finally:
            court.stop()


def judge_them(court: Court, chance: random.Random, rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    def votes() -> int:
        return int(rows("SELECT count(*) FROM judge_vote")[0][0])

    def left() -> int:
        return int(rows("SELECT count(*) FROM chat_turn WHERE status <> 'judged'")[0][0])

    court.start(*WORKERS)
    # A vote is cast in the middle of a verdict, so that a number of votes is a moment in a worker's work.
    moments = sorted(chance.sample(range(20, 6 * TURNS * 3 // 4), KILLS))
    for moment in moments:
        wait_for(f"{moment} votes are cast", lambda moment=moment: votes() >= moment or left() == 0, 240, every_s=0.05)
        victim = chance.choice(WORKERS)
        court.kill(victim)
        court.start(victim)
    assert left() > 0, "all was judged before the last worker was killed"

    wait_for("the queue is worked off", lambda: left() <= 2 * 2 * (KILLS + 1) + 2, 240)
    # What dead workers held comes again when its time has passed: here it passes while no worker is busy.
    for worker in WORKERS:
        court.kill(worker)
    for table, column in (("chat_turn", "moved_at"), ("judge_sitting", "until")):
        later = (
            f"datetime({column}, '-10 minutes')"
            if court.environment["DATABASE_URL"].startswith("sqlite")
            else f"{column} - interval '10 minutes'"
        )
        rows(f"UPDATE {table} SET {column} = {later}")
    court.start("beat", *WORKERS)
    wait_for("every turn is judged", lambda: left() == 0, 120)

    found = court.call()
    print(found)
    assert found["turns"] == TURNS
    assert found["status"] == {"judged": TURNS}
    assert found["judgements"] == found["judged"] == TURNS
    assert found["samples"] == found["sampled"] + found["stale"]
    assert (found["sampled"], found["stale"]) == (TURNS // 2, 0)  # praised and blamed ones, one sample each
    each = TURNS // len(ANSWERS)
    assert found["outcomes"] == sorted(
        [[0, 1, "", each], [1, -1, "", each], [2, 0, "neutral", each], [3, None, "no_quorum", each]], key=str
    )
    assert found["read_twice"] == 0  # a vote that was read is not asked for again, whichever process died
