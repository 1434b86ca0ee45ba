"""Real workers on a real file: killed at any line, or two at once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.stack import ROOT, wait_for
from tests.ready_samples import HINTED, PROMPT, RESPONSE

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

START = """
import django
django.setup()
from training import batches, runs
from training.config import Recipe
from training.models import Checkpoint, Run, Sample
recipe = Recipe(batch_size=3, distillation="vocabulary", lr=1e-3, updates=40)
"""

SAMPLES = f"""
for _ in range(3):
    Sample.objects.create(
        checkpoint=Checkpoint.live(), prompt_ids={PROMPT}, response_ids={RESPONSE}, behaviour_logprobs=OLD,
        teacher_prompt_ids={HINTED},
    )
"""


@pytest.fixture
def house(tmp_path, tiny_model, served):
    """A migrated folder with three ready samples in it, and a way to run a worker's code there."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "ENV_FILE": os.devnull,
        "PYTHONPATH": str(ROOT),
        "DATA_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{tmp_path}/talkback.sqlite3",
        "REDIS_URL": "redis://127.0.0.1:1/0",  # no server listens: every nudge is lost
        "MODEL": str(tiny_model),
        "RECIPE": "",
        "OMP_NUM_THREADS": "1",
    }

    def worker(code: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", START + code], env=environment, cwd=ROOT)

    def look(query: str) -> list[tuple]:
        with sqlite3.connect(f"file:{tmp_path}/talkback.sqlite3?mode=ro", uri=True) as rows:
            return rows.execute(query).fetchall()

    assert worker('from django.core.management import call_command; call_command("migrate", verbosity=0)').wait() == 0
    assert worker(SAMPLES.replace("OLD", json.dumps(served))).wait() == 0
    return tmp_path, worker, look


def test_a_run_killed_while_it_learns_is_trained_once(house):
    folder, worker, look = house
    first = worker("runs.train(batches.fill(recipe))")

    def has_begun() -> bool:
        return any(json.loads(row[0]).get("done", 0) > 3 for row in look("SELECT progress FROM training_run"))

    wait_for("the first updates are done", has_begun)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert look("SELECT status FROM training_run") == [("running",)]

    assert worker("[run] = runs.recover(); runs.train(run); runs.train(run)").wait() == 0

    assert look("SELECT status, attempts FROM training_run") == [("finished", 2)]
    assert look("SELECT number, status FROM training_checkpoint ORDER BY number") == [(0, "live"), (1, "candidate")]
    assert look("SELECT DISTINCT status FROM training_sample") == [("trained",)]
    assert [Path(path).name for (path,) in look("SELECT path FROM training_checkpoint WHERE number = 1")] == [
        path.name for path in (folder / "checkpoints").iterdir()
    ]


TAKE_BACK = """
from training.provenance import cleaning, taints
runs.train(batches.fill(recipe))
gone = Sample.objects.filter(pk=Sample.objects.earliest("pk").pk)
gone.update(drop_reason="its chat was deleted")
taints.mark(gone)
cleaning.go_on(cleaning.start(Checkpoint.objects.get(number=1), by=None).pk)
"""


def test_a_cleaning_killed_while_it_learns_ends_with_what_is_left_learned_once(house):
    folder, worker, look = house
    assert worker(TAKE_BACK).wait() == 0
    first = worker('runs.train(Run.objects.get(status="queued"))')

    def has_begun() -> bool:
        step = look("SELECT progress FROM training_run WHERE status = 'running'")
        return any(json.loads(row[0]).get("done", 0) > 3 for row in step)

    wait_for("the first updates of the step are done", has_begun)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert look("SELECT status FROM training_cleaning") == [("running",)]

    ended = (
        "from training.provenance import cleaning; [run] = runs.recover(); "
        "runs.train(run); cleaning.go_on(1); cleaning.go_on(1)"
    )
    assert worker(ended).wait() == 0

    assert look("SELECT status, attempts FROM training_run ORDER BY id") == [("finished", 1), ("finished", 2)]
    assert [json.loads(row[0]) for row in look("SELECT learned FROM training_run ORDER BY id")] == [[], [2, 3]]
    assert look("SELECT number, parent_id, status FROM training_checkpoint WHERE number > 0 ORDER BY number") == [
        (1, base := look("SELECT id FROM training_checkpoint WHERE number = 0")[0][0], "candidate"),
        (2, base, "candidate"),
    ]
    assert look("SELECT status, result_id IS NOT NULL FROM training_cleaning") == [("finished", 1)]
    assert look("SELECT DISTINCT status, run_id FROM training_sample") == [("trained", 1)]  # they stay the first run's
    named = {Path(path).name for (path,) in look("SELECT path FROM training_checkpoint WHERE number > 0")}
    assert {path.name for path in (folder / "checkpoints").iterdir()} == named  # nothing half-written lies there


AT_THE_LINE = """
import pathlib, time
folder = pathlib.Path(FOLDER)
(folder / f"here-{__import__('os').getpid()}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
"""


@pytest.fixture
def at_once(house):
    """Two workers do the same at the same moment; their exit codes."""
    folder, worker, _ = house

    def at_once(code: str) -> list[int]:
        workers = [worker(AT_THE_LINE.replace("FOLDER", repr(str(folder))) + code) for _ in range(2)]
        wait_for("both workers stand at the line", lambda: len(list(folder.glob("here-*"))) == 2)
        (folder / "go").touch()
        return [each.wait() for each in workers]

    return at_once


def test_two_workers_that_fill_at_once_make_one_run(house, at_once):
    _, _, look = house

    assert at_once("batches.fill(recipe)") == [0, 0]

    assert look("SELECT status FROM training_run") == [("queued",)]
    assert look("SELECT status, COUNT(*), COUNT(DISTINCT run_id) FROM training_sample GROUP BY status") == [
        ("claimed", 3, 1)
    ]


def test_two_workers_that_take_up_one_run_train_it_once(house, at_once):
    folder, worker, look = house
    assert worker("batches.fill(recipe)").wait() == 0

    assert at_once("runs.train(Run.objects.get())") == [0, 0]

    assert look("SELECT status, attempts FROM training_run") == [("finished", 1)]
    assert look("SELECT status, COUNT(*) FROM training_sample GROUP BY status") == [("trained", 3)]
    assert look("SELECT COUNT(*) FROM training_checkpoint WHERE number > 0") == [(1,)]
    assert len(list((folder / "checkpoints").iterdir())) == 1


PLAYED = f"""
from django.contrib.auth.models import User
from django.utils import timezone
from episodes.models import Episode, Group
group = Group.objects.create(
    user=User.objects.create(username="player"), name="g", world="till", task="sum-7", split="train", attempts=2,
    checkpoint=Checkpoint.live(), judged_at=timezone.now(),
)
for n, (ending, outcome) in enumerate([("solved", 1.0), ("failed", -1.0)]):
    episode = Episode.objects.create(
        group=group, attempt=n, status="scored", ending=ending, outcome=outcome, lease_s=9, lease_until=timezone.now()
    )
    prompt, reply = {PROMPT}, [7 + n, 8, 9, 10, 2]
    for step in range(2):
        Sample.objects.create(
            checkpoint=Checkpoint.live(), prompt_ids=prompt, response_ids=reply, behaviour_logprobs=OLD,
            episode=episode, step=step,
        )
        prompt = [*prompt, *reply, 60]
"""

OF_FIVE = 'recipe = recipe.model_copy(update={"batch_size": 5, "max_gap": 99})\n'


def test_two_workers_that_fill_at_once_claim_a_group_whole_and_once(house, at_once, served):
    _, worker, look = house
    assert worker(PLAYED.replace("OLD", json.dumps(served))).wait() == 0

    assert at_once(OF_FIVE + "batches.fill(recipe)") == [0, 0]

    assert look("SELECT status FROM training_run") == [("queued",)]
    claimed = "SELECT step IS NOT NULL, status, COUNT(*), COUNT(DISTINCT run_id) FROM training_sample GROUP BY 1, 2"
    assert look(claimed) == [(0, "claimed", 3, 1), (1, "claimed", 4, 1)]


def test_a_run_on_attempts_killed_while_it_learns_counts_each_once(house, served):
    _, worker, look = house
    assert worker(PLAYED.replace("OLD", json.dumps(served))).wait() == 0
    first = worker(OF_FIVE + "runs.train(batches.fill(recipe))")

    def has_begun() -> bool:
        return any(json.loads(row[0]).get("done", 0) > 5 for row in look("SELECT progress FROM training_run"))

    wait_for("the first updates are done", has_begun)
    first.send_signal(signal.SIGKILL)
    first.wait()
    told = "SELECT DISTINCT status, advantage IS NOT NULL FROM training_sample WHERE step IS NOT NULL"
    assert look(told) == [("claimed", 0)]
    assert look("SELECT DISTINCT status FROM episodes_episode") == [("scored",)]

    assert worker("[run] = runs.recover(); runs.train(run); runs.train(run); batches.fill(recipe)").wait() == 0

    assert look("SELECT status, attempts FROM training_run") == [("finished", 2)]
    assert look(told) == [("trained", 1)]
    assert look("SELECT DISTINCT status FROM episodes_episode") == [("learned",)]
    [agents] = [json.loads(row[0]) for row in look("SELECT agents FROM training_run")]
    assert (agents["groups"], agents["attempts"], agents["rows"]) == (1, 2, 2)
