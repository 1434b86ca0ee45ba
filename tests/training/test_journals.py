"""What a run logged can be looked at elsewhere."""

from __future__ import annotations

import json
import sys
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


def drawn_in(folder):
    """What TensorBoard would draw of the event files in a folder."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    for file in folder.glob("events.out.tfevents.*"):
        data, at = file.read_bytes(), 0
        while at < len(data):  # TFRecord: 8 bytes of length, 4 of its checksum, the event, 4 of its checksum
            length = int.from_bytes(data[at : at + 8], "little")
            event = Event.FromString(data[at + 12 : at + 12 + length])
            for part, end in ((data[at : at + 8], at + 12), (data[at + 12 : at + 12 + length], at + length + 16)):
                assert masked_crc32c(part) == int.from_bytes(data[end - 4 : end], "little")
            yield from event.summary.value
            at += 12 + length + 4


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
