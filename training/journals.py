"""A run's figures for other tools: JSON lines, TensorBoard, and Weights & Biases where its key is set."""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from django.conf import settings

from core.errors import TalkbackError
from training import events
from training.models import Run

log = logging.getLogger(__name__)

PROJECT = "talkback"


class NotInstalled(TalkbackError):
    """The library that writes this form is not there."""

    code, status = "not_installed", 422


def lines(run: Run) -> Iterator[str]:
    """The run as JSON, a line each: first what it was, then one an update. NaN and infinity were kept as null."""
    yield json.dumps(
        {
            "run": run.pk,
            "status": run.status,
            "parent": str(run.parent) if run.parent else None,
            "recipe": run.recipe,
            "seed": run.seed,
            "created_at": run.created_at.isoformat(),
            "finished_at": run.finished_at.isoformat() if run.finished_at else None,
            "error": run.error,
        }
    )
    for figures in run.metrics:
        yield json.dumps({"run": run.pk, **figures})


def write_lines(run: Run, file: Path) -> None:
    """`lines` into a file, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text("".join(f"{line}\n" for line in lines(run)), encoding="utf-8")
    partial.replace(file)


def tensorboard(run: Run) -> Iterator[bytes]:
    """The run as an event file that TensorBoard reads: its recipe, its curves and histograms, a step an update."""
    at = (run.finished_at or run.created_at).timestamp()
    yield events.started(at)
    yield events.text(at, 0, "recipe/text_summary", f"```json\n{json.dumps(run.recipe, indent=2)}\n```")
    for step, figures in enumerate(run.metrics, 1):
        for name, value in numbers(figures):
            yield events.scalar(at, step, name, value)
        for name, (edges, counts) in histograms(figures):
            yield events.histogram(at, step, name, edges, counts)


def write_tensorboard(run: Run, folder: Path) -> Path:
    """An event file under `folder`/run-N for `tensorboard --logdir folder`; an earlier export's is replaced."""
    own = folder / f"run-{run.pk}"
    own.mkdir(parents=True, exist_ok=True)
    for old in own.glob("events.out.tfevents.*"):
        old.unlink()
    (own / f"events.out.tfevents.run-{run.pk}").write_bytes(b"".join(tensorboard(run)))
    return own


def send_to_wandb(run: Run) -> None:
    """The recipe and the figures to Weights & Biases, as project talkback: this leaves the machine, texts do not.

    Raises NotInstalled without its library.
    """
    try:
        wandb: Any = importlib.import_module("wandb")
    except ImportError as error:
        raise NotInstalled("WANDB_API_KEY is set, but wandb is not installed: pip install wandb.") from error
    told = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=f"{settings.MODEL_NAME}-run-{run.pk}-{run.created_at:%Y%m%d%H%M%S}",
        name=str(run),
        config=run.recipe,
        dir=str(Path(settings.DATA_DIR) / "journals"),
        resume="allow",
    )
    try:
        for step, figures in enumerate(run.metrics, 1):
            drawn = {
                name: wandb.Histogram(np_histogram=(counts, edges)) for name, (edges, counts) in histograms(figures)
            }
            told.log(dict(numbers(figures)) | drawn, step=step)
    finally:
        told.finish()


def keep(run: Run) -> None:
    """Write a finished run down in DATA_DIR/journals. What fails here is logged and no more: the run has counted."""
    folder = Path(settings.DATA_DIR) / "journals"
    try:
        write_lines(run, folder / f"run-{run.pk}.jsonl")
        write_tensorboard(run, folder)
        if os.environ.get("WANDB_API_KEY"):
            send_to_wandb(run)
    except Exception as failure:
        log.warning("the figures of %s were not all written for other tools: %s", run, failure)


def numbers(figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """What can be drawn of an update's figures as a curve.

    >>> dict(numbers({"loss": 0.5, "kl": None, "note": "x", "update": 1}))
    {'loss': 0.5, 'update': 1.0}
    """
    for name, value in figures.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value):
            yield name, float(value)


def histograms(figures: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Sequence[float], Sequence[int]]]]:
    """What of them is a histogram: its edges, and one count fewer.

    >>> dict(histograms({"loss": 0.5, "heights": {"edges": [0.0, 1.0, 2.0], "counts": [3, 4]}}))
    {'heights': ([0.0, 1.0, 2.0], [3, 4])}
    """
    for name, value in figures.items():
        if isinstance(value, Mapping) and value.keys() == {"edges", "counts"}:
            yield name, (value["edges"], value["counts"])
