"""Before a run is started a person can ask what it would take."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from checkpoints.models import Checkpoint
from core import stores
from tests.ready_attempts import FAILED, SOLVED
from tests.ready_samples import HINTED, PROMPT, RESPONSE
from training import batches, runs
from training.config import Recipe
from training.models import Run
from training.next_run import forecast
from training.next_run.forecast import Lengths

RECIPE = Recipe(batch_size=4, updates=2)


def finish_run(began: datetime, **fields: Any) -> Run:
    """A run of five minutes."""
    return Run.objects.create(
        recipe=RECIPE.model_dump(),
        parent=Checkpoint.live(),
        status=Run.Status.FINISHED,
        started_at=began,
        finished_at=began + timedelta(minutes=5),
        **fields,
    )


def test_every_read_of_a_run_is_counted():
    samples = [Lengths(prompt=60, response=40, hinted=80), Lengths(prompt=10, response=30)]

    # 100 + 40 read by the base, 120 under the hint, and there and back (three reads) at both updates of 140 tokens.
    assert forecast.reads(samples, RECIPE, is_fresh=True) == 140 + 120 + 3 * 2 * 140
    # A policy that is not the base any more reads them once before it is changed.
    assert forecast.reads(samples, RECIPE, is_fresh=False) == 2 * 140 + 120 + 3 * 2 * 140
    # Without distillation no teacher reads the hinted prompt; of a reply the first 20 tokens are learned from.
    short = Recipe(w_opd=0, updates=1, max_tokens=20)
    assert forecast.reads(samples, short, is_fresh=True) == (80 + 30) * (1 + 3)


def test_the_first_run_is_foreseen_but_for_its_minutes(ready, home):
    ready(), ready(reward=1.0, teacher_prompt_ids=None)

    seen = forecast.of_ready(RECIPE)

    assert (seen.samples, seen.prompt_tokens, seen.response_tokens) == (2, 2 * len(PROMPT), 2 * len(RESPONSE))
    assert seen.minutes is None
    assert "shows with the first run" in seen.sentence
    assert seen.fits_disk


def test_minutes_and_memory_are_those_of_earlier_runs(ready, home):
    sample = ready()
    began = timezone.now() - timedelta(minutes=30)
    run = finish_run(began, progress={"peak_mib": 2048.0})
    type(sample).objects.filter(pk=sample.pk).update(run=run, status="trained")
    ready(), ready(), ready()

    seen = forecast.of_ready(RECIPE)

    assert seen.minutes == pytest.approx(15)  # three like the one that took five
    assert "About 15 min" in seen.sentence
    assert "Memory 2.0 GiB" in seen.sentence


def test_of_all_runs_that_are_looked_at_three_bring_the_first_row_of_their_metrics(ready, home):
    # The newest with the same kind of weights are 1, 3 and 4 of these, counted from the newest on; 2 is of another.
    for place in range(forecast.PEAKS + 2, 0, -1):
        kind = "full" if place == 2 else "lora"
        Run.objects.create(
            recipe=RECIPE.model_dump() | {"weights": kind},
            parent=Checkpoint.live(),
            status=Run.Status.FINISHED,
            metrics=[] if place == 3 else [{"update": place}, {"update": 99}],
        )

    found = forecast._finished(RECIPE)

    assert len(found) == forecast.PEAKS
    assert [run.told for run in found] == [{"update": 1}, None, None, {"update": 4}, *[None] * (forecast.PEAKS - 4)]
    assert {"metrics", "usage", "agents"} <= found[0].get_deferred_fields()


def test_what_a_run_rehearsed_beside_its_lessons_counts_as_read(ready, home, monkeypatch):
    sample = ready()
    began = timezone.now() - timedelta(minutes=30)
    run = finish_run(began)
    type(sample).objects.filter(pk=sample.pk).update(run=run, status="trained")
    alone = forecast._earlier(RECIPE, forecast._finished(RECIPE))
    Run.objects.filter(pk=run.pk).update(metrics=[{"replies_rehearsed": 2}])
    monkeypatch.setattr(forecast, "rehearsed", lambda rows: [Lengths(10, 5)] * rows)
    beside = forecast._earlier(RECIPE, forecast._finished(RECIPE))

    # Two more of 15 tokens each, which the base reads once, and which go there and back (three reads) at both updates.
    assert beside[0].reads - alone[0].reads == 2 * 15 * (1 + 3 * 2)


def test_a_repeated_run_is_measured_by_what_it_learned_of_another(ready, home):
    sample = ready()
    began = timezone.now() - timedelta(minutes=30)
    made = {
        "recipe": RECIPE.model_dump(),
        "parent": Checkpoint.live(),
        "status": Run.Status.FINISHED,
        "started_at": began,
        "finished_at": began + timedelta(minutes=5),
    }
    first = Run.objects.create(**made)
    type(sample).objects.filter(pk=sample.pk).update(run=first, status="trained")
    Run.objects.create(**made, again=first, learned=[sample.pk])
    Run.objects.create(**made, again=first, learned=[])
    ready(), ready()

    seen = forecast.of_ready(RECIPE)

    assert seen.measured_on == 2  # the third run learned nothing that is known
    assert seen.minutes == pytest.approx(10)


def test_a_run_leaves_what_the_next_forecast_needs(ready, home):
    ready(), ready()
    run = batches.learn_now(RECIPE)
    runs.train(run)
    run.refresh_from_db()
    ready()

    seen = forecast.of_ready(RECIPE)

    assert seen.measured_on == 1
    assert seen.minutes is not None
    assert seen.memory_mib == run.progress["peak_mib"] > 50  # torch alone takes more
    assert len(HINTED) > len(PROMPT)


def test_the_disk_that_a_checkpoint_takes_is_foreseen(ready, home, tiny_model):
    ready()
    candidate = runs.train(batches.learn_now(Recipe(batch_size=1, lora_rank=4)))

    taken = sum(file.stat().st_size for file in candidate.folder.rglob("*") if file.is_file())
    assert taken < forecast.checkpoint_bytes(Recipe(lora_rank=4), tiny_model) < 1.15 * taken + forecast.BESIDE
    config = json.loads((tiny_model / "config.json").read_text())
    assert config["dtype"] == "float32"
    full = forecast.checkpoint_bytes(Recipe(weights="full"), tiny_model)
    weights = 3 * (tiny_model / "model.safetensors").stat().st_size  # and both of Adam's moments
    assert weights < full < 1.05 * weights + forecast.BESIDE


def test_too_little_room_is_said_beforehand(ready, home, monkeypatch):
    ready()
    usage = stores.shutil.disk_usage(home)
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda folder: usage._replace(free=1000))

    seen = forecast.of_ready(RECIPE)

    assert not seen.fits_disk
    assert "make room first" in seen.sentence


def test_the_command_says_it_and_starts_nothing(ready, home, capsys):
    ready()
    call_command("learn_now", "--dry-run")
    assert "1 lesson, 4 updates" in capsys.readouterr().out
    assert not Run.objects.exists()


def test_nothing_ready_is_nothing_to_foresee(db, home):
    with pytest.raises(CommandError, match="There is no lesson"):
        call_command("learn_now", "--dry-run")


def test_a_forecast_reads_an_attempt_in_a_row_and_takes_whole_groups(play, home):
    play(SOLVED, FAILED)
    play(SOLVED, FAILED)
    recipe = Recipe(batch_size=3, w_opd=0, updates=1)

    seen = forecast.of_ready(recipe)

    # Each of four attempts: a prompt of 5, two replies of 3, and 2 between them. The second group is taken whole.
    assert (seen.samples, seen.prompt_tokens, seen.response_tokens) == (4, 4 * 7, 4 * 6)
    assert seen.reads == 4 * 13 * (1 + 3)
    # Of each reply the first two tokens.
    assert forecast.of_ready(recipe.model_copy(update={"max_tokens": 2})).response_tokens == 4 * 4


def test_memory_is_foreseen_from_a_run_that_held_as_much(ready, home):
    ready()
    for micro_batch, peak in ((4, 4096.0), (1, 1024.0)):
        Run.objects.create(
            recipe=RECIPE.model_copy(update={"micro_batch": micro_batch}).model_dump(),
            parent=Checkpoint.live(),
            status=Run.Status.FINISHED,
            progress={"peak_mib": peak},
        )
    assert forecast.of_ready(RECIPE).memory_mib == 1024.0  # micro_batch 1
    assert forecast.of_ready(RECIPE.model_copy(update={"micro_batch": 4, "lr": 0.5})).memory_mib == 4096.0
    assert forecast.of_ready(RECIPE.model_copy(update={"micro_batch": 2})).memory_mib is None
    assert forecast.of_ready(RECIPE.model_copy(update={"base_bits": 4})).memory_mib is None


def test_a_full_batch_is_foreseen_from_what_waits_else_from_what_was_learned_last(ready, home):
    with pytest.raises(batches.NothingReady):
        forecast.of_full_batch(RECIPE)
    sample = ready()
    # The one lesson that waits stands for all four of a batch.
    assert forecast.of_full_batch(RECIPE).prompt_tokens == 4 * len(PROMPT)
    run = Run.objects.create(recipe=RECIPE.model_dump(), parent=Checkpoint.live(), status=Run.Status.FINISHED)
    type(sample).objects.filter(pk=sample.pk).update(run=run, status="trained")
    eight = RECIPE.model_copy(update={"batch_size": 8})
    assert forecast.of_full_batch(eight).response_tokens == 8 * len(RESPONSE)
