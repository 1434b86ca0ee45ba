"""A run's figures for other tools: JSON lines, TensorBoard, and Weights & Biases where its key is set."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from django.conf import settings

from core.errors import TalkbackError
from training.models import Run
from training.monitoring import limits

log = logging.getLogger(__name__)

PROJECT = "talkback"

VERSION = "brain.Event:2"
"""What the first event of a file says."""

IMPORTING = Lock()
"""Two threads that hide torch at once would each put it back."""


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
            "limits_passed": [limits.told(one) for one in limits.passed(run.metrics, run.recipe)],
            **({"agents": run.agents} if run.agents else {}),
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


def tensorboard(run: Run) -> bytes:
    """The run as an event file that TensorBoard reads: its recipe, its curves and histograms, a step an update."""
    _import_without_torch("tensorboardX")
    event = import_module("tensorboardX.proto.event_pb2").Event
    at = (run.finished_at or run.created_at).timestamp()
    with tempfile.NamedTemporaryFile(suffix=".tfevents") as file:  # the library writes files alone
        writer = import_module("tensorboardX.record_writer").RecordWriter(file.name)
        writer.write(event(wall_time=at, file_version=VERSION).SerializeToString())
        for step, summary in _summaries(run):
            writer.write(event(wall_time=at, step=step, summary=summary).SerializeToString())
        writer.close()
        return Path(file.name).read_bytes()


def _summaries(run: Run) -> Iterator[tuple[int, Any]]:
    """TensorBoard's messages, each with its step."""
    summary = import_module("tensorboardX.summary")
    yield 0, summary.text("recipe", f"```json\n{json.dumps(run.recipe, indent=2)}\n```")
    for step, figures in enumerate(run.metrics, 1):
        for name, value in numbers(figures):
            yield step, summary.scalar(name, value)
        for name, (edges, counts) in histograms(figures):
            middles = [(low + high) / 2 for low, high in pairwise(edges)]  # what lies between two edges is taken for it
            parts = list(zip(counts, middles, strict=True))
            total, squares = sum(n * x for n, x in parts), sum(n * x * x for n, x in parts)
            ends = edges[0], edges[-1]
            yield step, summary.histogram_raw(name, *ends, sum(counts), total, squares, edges[1:], counts)


def _import_without_torch(library: str) -> None:
    """Import a library that brings torch along wherever it is installed, and does without where it is not: a web
    process has seconds and hundreds of megabytes to lose by it, and nothing to draw from tensors."""
    with IMPORTING:
        is_hidden = sys.modules.setdefault("torch", None) is None  # type: ignore[arg-type]  # None: an ImportError
        try:
            import_module(library)
        finally:
            if is_hidden:
                del sys.modules["torch"]


def write_tensorboard(run: Run, folder: Path) -> Path:
    """An event file under `folder`/run-N for `tensorboard --logdir folder`; an earlier export's is replaced."""
    own = folder / f"run-{run.pk}"
    own.mkdir(parents=True, exist_ok=True)
    for old in own.glob("events.out.tfevents.*"):
        old.unlink()
    (own / f"events.out.tfevents.run-{run.pk}").write_bytes(tensorboard(run))
    return own


def send_to_wandb(run: Run) -> None:
    """The recipe and the figures to Weights & Biases, as project talkback: this leaves the machine, texts do not.

    Raises NotInstalled without its library.
    """
    try:
        wandb: Any = import_module("wandb")
    except ImportError as error:
        raise NotInstalled("WANDB_API_KEY is set, but wandb is not installed: pip install wandb.") from error
    told = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=f"{settings.MODEL_NAME}-run-{run.pk}-{run.created_at:%Y%m%d%H%M%S}",
        name=f"run {run.pk}",
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
