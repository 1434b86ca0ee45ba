"""What a run logged can be looked at elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command

from training import batches, journals, tasks
from training.config import Recipe
from training.models import Run

RECIPE = Recipe(batch_size=1, distillation="vocabulary", lr=1e-2, updates=2)


@pytest.fixture
def run(ready, home) -> Run:
    """A run whose two updates are done."""
    ready()
    queued = batches.fill(RECIPE)
    tasks.train(str(queued.pk))
    return Run.objects.get(pk=queued.pk)


def events_in(folder):
    """The event files in a folder, as TensorBoard reads them."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    for file in folder.glob("events.out.tfevents.*"):
        data, at = file.read_bytes(), 0
        while at < len(data):  # TFRecord: 8 bytes of length, 4 of its checksum, the event, 4 of its checksum
            length = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + length])
            for part, end in ((data[at : at + 8], at + 12), (data[at + 12 : at + 12 + length], at + length + 16)):
                assert masked_crc32c(part) == int.from_bytes(data[end - 4 : end], "little")
            yield event
            at += 12 + length + 4


def drawn_in(folder):
    """What TensorBoard would draw of them."""
    for event in events_in(folder):
        yield from event.summary.value


def scalars(folder) -> dict[str, list[float]]:
    """Its curves."""
    drawn: dict[str, list[float]] = {}
    for value in drawn_in(folder):
        if value.HasField("simple_value"):
            drawn.setdefault(value.tag, []).append(value.simple_value)
    return drawn


def test_a_finished_run_is_written_for_other_tools(run, home):
    head, *updates = [json.loads(line) for line in (home / "journals" / f"run-{run.pk}.jsonl").read_text().splitlines()]

    assert (head["status"], head["recipe"], head["parent"]) == ("finished", RECIPE.model_dump(), "talkback@0")
    assert [update["loss"] for update in updates] == [figures["loss"] for figures in run.metrics]
    drawn = scalars(home / "journals" / f"run-{run.pk}")
    assert drawn["loss"] == pytest.approx([figures["loss"] for figures in run.metrics])
    assert len(drawn["grad_norm"]) == 2


def test_the_advantages_are_a_histogram_there_too(run, home):
    found = [value for value in drawn_in(home / "journals" / f"run-{run.pk}") if value.HasField("histo")]

    assert [value.tag for value in found] == ["advantage_histogram"] * 2
    told = run.metrics[0]["advantage_histogram"]
    assert sum(told["counts"]) == 5  # the tokens of its one reply
    assert dict(zip(found[0].histo.bucket_limit, found[0].histo.bucket, strict=True))[0.125] == 5  # none rewarded
    assert (found[0].histo.num, found[0].histo.sum) == (5, 0)


def test_an_event_file_is_written_without_torch(tmp_path):
    program = """
import sys, django
django.setup()
from datetime import datetime
from training import journals
from training.models import Run
run = Run(metrics=[{"loss": 0.5}], recipe={}, created_at=datetime(2026, 1, 1))
print(len(journals.tensorboard(run)), "tensorboardX" in sys.modules, "torch" in sys.modules)
import torch
print(torch.ones(1).item())
"""
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "webapp.settings", "DATA_DIR": str(tmp_path), "SECRET_KEY": "of-a-test"
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *_, written, torch = done.stdout.splitlines()
    # each frame has 16 bytes around its event; the recipe's and the figure's make it longer than the first one's
    assert int(written.split()[0]) > 3 * 16
    assert written.split()[1:] == ["True", "False"]
    assert torch == "1.0"  # which is only kept out of that one import


def test_the_file_says_its_version_its_recipe_and_each_steps_time(run, home):
    first, recipe, *figures = events_in(home / "journals" / f"run-{run.pk}")
    assert first.file_version == "brain.Event:2"
    (told,) = recipe.summary.value
    assert (told.tag, told.metadata.plugin_data.plugin_name) == ("recipe/text_summary", "text")
    assert json.loads(told.tensor.string_val[0].decode().removeprefix("```json").removesuffix("```")) == run.recipe
    assert {event.step for event in figures} == {1, 2}
    assert {event.wall_time for event in (first, recipe, *figures)} == {run.finished_at.timestamp()}


def test_an_export_replaces_the_one_before(run, tmp_path, capsys):
    for _ in range(2):
        call_command("runs", "export", str(run.pk), "--tensorboard", str(tmp_path / "board"))
    assert len(scalars(tmp_path / "board" / f"run-{run.pk}")["loss"]) == 2

    capsys.readouterr()
    call_command("runs", "export", str(run.pk))
    assert len(capsys.readouterr().out.splitlines()) == 3  # what it was, and two updates


def test_with_a_key_weights_and_biases_hears_the_figures_and_no_text(run, monkeypatch):
    told, logged = [], []
    log = lambda figures, step: logged.append((step, figures))  # noqa: E731
    session = SimpleNamespace(log=log, finish=lambda: told.append("finished"))
    fake = SimpleNamespace(
        init=lambda **said: told.append(said) or session, Histogram=lambda np_histogram: np_histogram
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setenv("WANDB_API_KEY", "secret")

    journals.keep(run)

    assert told[0]["config"] == run.recipe
    assert told[-1] == "finished"
    assert [step for step, _ in logged] == [1, 2]
    for _, figures in logged:
        counts, edges = figures.pop("advantage_histogram")
        assert len(edges) == len(counts) + 1 == 18
        assert all(isinstance(value, float) for value in figures.values())


def test_a_journal_that_cannot_be_written_costs_the_run_nothing(ready, home, caplog):
    (home / "journals").write_text("in the way")
    ready()
    queued = batches.fill(RECIPE)

    tasks.train(str(queued.pk))

    queued.refresh_from_db()
    assert queued.status == "finished"
    assert "were not all written" in caplog.text


def test_a_key_without_the_library_says_what_to_install(run, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    journals.keep(run)
    assert "pip install wandb" in caplog.text


def test_an_unknown_run_is_named(db):
    with pytest.raises(CommandError, match="no run 7"):
        call_command("runs", "export", "7")
