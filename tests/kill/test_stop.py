"""Workers that are asked to stop: a run goes on after the next start, a verdict is given once, and nothing fails."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stack import Stack, wait_for
from tests.kill.court import Court

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

STOP_S = 12
"""From the signal to the kill. Work may take two thirds of it."""

FILL = """
from training import batches
from training.config import Recipe
from training.models import Checkpoint, Sample
for _ in range(3):
    Sample.objects.create(
        checkpoint=Checkpoint.live(), prompt_ids=[1, 5, 6, 40], response_ids=[7, 8, 9, 10, 2],
        behaviour_logprobs=[-4.0] * 5, teacher_prompt_ids=[1, 5, 6, 40, 77, 78, 79],
    )
batches.fill(Recipe(batch_size=3, distillation="vocabulary", lr=1e-4, updates={updates}, max_gap=99))
"""


def rows(stack: Stack, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(stack.data_dir / "talkback.sqlite3", timeout=30)) as database:
        return database.execute(sql).fetchall()


class School(Stack):
    """The part of a stack that learns."""

    @property
    def commands(self) -> dict[str, list[str]]:
        return {name: super(School, self).commands[name] for name in ("redis", "learn")}

    def run(self) -> tuple[Any, ...]:
        """The run's state, how many workers it has lost and one more, and its samples' state."""
        return rows(self, "SELECT r.status, attempts, s.status, error FROM training_run r, training_sample s LIMIT 1")[
            0
        ]

    def is_learning(self) -> bool:
        found = rows(self, "SELECT progress FROM training_run WHERE status = 'running'")
        return any(json.loads(progress).get("done", 0) > 3 for (progress,) in found)


def ask_to_stop(stack: Stack, name: str, *signals: int, within_s: float = STOP_S) -> None:
    """Ask one process and its children to end, by one signal after the other. Fails where a supervisor would have
    killed it, `within_s` after that, or where its status is not that of a good end."""
    process = stack.running[name]
    for number in signals:
        os.killpg(process.pid, number)
        time.sleep(0.1)
    wait_for(f"{name} has ended", lambda: process.poll() is not None, within_s)
    status = process.returncode
    del stack.running[name]
    stack.logs.pop(name).close()
    # The last of several may find a process that has done all and is leaving, with no handler any more.
    assert status in ((0,) if len(signals) == 1 else (0, -signals[-1]))


@pytest.fixture
def school(tmp_path: Path) -> Iterator[Callable[..., School]]:
    opened: list[School] = []

    def school(model: Path, updates: int, **environment: str) -> School:
        """One batch claimed by a run of so many updates, and a learner at work on it."""
        made = School(tmp_path, model, **{"STOP_S": str(STOP_S), "LOG_LEVEL": "INFO", **environment})
        opened.append(made)
        made.manage("migrate", "-v", "0")
        made.start()
        made.manage("shell", "-v", "0", "-c", FILL.format(updates=updates))
        wait_for("the run is learning", made.is_learning)
        return made

    try:
        yield school
    except BaseException:
        for one in opened:
            print(one.log("learn"))
        raise
    finally:
        for one in opened:
            one.stop()


WAYS: Sequence[tuple[int, ...]] = (
    (signal.SIGTERM,),
    (signal.SIGINT,),
    (signal.SIGINT, signal.SIGINT),
    (signal.SIGQUIT,),
    (signal.SIGTERM, signal.SIGQUIT),
)


def test_a_run_that_is_stopped_in_every_way_goes_on_after_each_start_and_ends(
    school: Callable[..., School], tiny_model: Path
):
    school = school(tiny_model, updates=1000)
    for way in WAYS:
        wait_for("the run is learning", school.is_learning)
        ask_to_stop(school, "learn", *way)
        assert school.run() == ("queued", 0, "claimed", ""), way
        school.start("learn")

    wait_for("the run is over", lambda: school.run()[0] in ("finished", "failed"), 400)

    assert school.run() == ("finished", 1, "trained", "")
    assert rows(school, "SELECT status, count(*) FROM training_sample GROUP BY 1") == [("trained", 3)]
    assert rows(school, "SELECT number FROM training_checkpoint ORDER BY number") == [(0,), (1,)]
    assert len(list((school.data_dir / "checkpoints").iterdir())) == 1


def test_processes_that_learn_together_are_stopped_and_their_run_goes_on(
    school: Callable[..., School], tiny_model: Path
):
    school = school(tiny_model, updates=300, LEARN_PROCESSES="2")
    ask_to_stop(school, "learn", signal.SIGTERM, signal.SIGTERM)
    assert school.run() == ("queued", 0, "claimed", "")
    assert list((school.data_dir / "jobs").iterdir()) == []

    school.start("learn")
    wait_for("the run is over", lambda: school.run()[0] in ("finished", "failed"), 400)
    assert school.run() == ("finished", 1, "trained", "")


@pytest.mark.real_model
def test_a_run_of_the_real_model_goes_on_after_a_stop(school: Callable[..., School], smol_model: Path):
    school = school(smol_model, updates=100)
    ask_to_stop(school, "learn", signal.SIGTERM)
    assert school.run() == ("queued", 0, "claimed", "")

    school.start("learn")
    wait_for("the run is over", lambda: school.run()[0] in ("finished", "failed"), 400)
    assert school.run() == ("finished", 1, "trained", "")


def test_a_run_that_can_end_in_time_is_finished_before_the_worker_stops(
    school: Callable[..., School], tiny_model: Path
):
    school = school(tiny_model, updates=60, STOP_S="120")  # 60 updates take a second or two, and ten where it is busy
    ask_to_stop(school, "learn", signal.SIGTERM, within_s=120)
    assert school.run() == ("finished", 1, "trained", "")


@pytest.fixture
def court(tmp_path: Path, tiny_model: Path) -> Iterator[Court]:
    court = Court(tmp_path, tiny_model)
    court.environment |= {"STOP_S": str(STOP_S), "JUDGE_DEADLINE_S": "60"}  # no vote is given up before the stop
    try:
        court.manage("migrate", "-v", "0")
        court.start("redis", "engine", "judge-1")
        wait_for("the engine answers", court.ready, 60)
        yield court
    except BaseException:
        print(court.log("judge-1"))
        raise
    finally:
        court.stop()


def test_what_a_judge_was_stopped_at_is_judged_once_after_the_next_start(court: Court):
    ways = WAYS[1:4]
    for way in ways:
        os.kill(court.running["engine"].pid, signal.SIGSTOP)  # so that the judge is caught while it waits for votes
        try:
            court.call("2")  # one for each of its threads
            wait_for("both threads are at work", lambda: len(rows(court, "SELECT * FROM judge_sitting")) == 2, 60)
            ask_to_stop(court, "judge-1", *way)
        finally:
            os.kill(court.running["engine"].pid, signal.SIGCONT)
        assert rows(court, "SELECT * FROM judge_sitting") == [], way  # the next worker need not wait for their end
        court.start("judge-1")
    turns = 2 * len(ways)
    assert court.call()["status"] == {"observed": turns}

    court.start("beat")
    wait_for("all are judged", lambda: court.call()["status"] == {"judged": turns}, 90, every_s=3)

    found = court.call()
    assert (found["judgements"], found["judged"], found["read_twice"]) == (turns, turns, 0)
    assert found["samples"] == found["sampled"]
