"""The life of files that are made for download: asked for, written by a worker, kept for a stated time, deleted."""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from core.errors import IllegalMove, TalkbackError
from evaluation.models import Export
from gpu_workers.weights import sha256_of

log = logging.getLogger(__name__)

KEPT = timedelta(days=7)
"""How long files wait to be downloaded."""

LOST = {Export.What.DATASET: timedelta(minutes=3)}
LOST_WEIGHTS = timedelta(minutes=30)
"""After how long without a sign of life a worker counts as dead: merging weights gives none on its way."""

BEAT_S = 1.0
"""How often progress is written at most."""

Status = Export.Status


class ExportGone(TalkbackError):
    """These files are not there, or not any more."""

    code, status = "export_gone", 404


class Cancelled(Exception):
    """A person asked that this be not made."""


class Progress:
    """Tells how far an export is, and hears that it was cancelled."""

    def __init__(self, export: Export | None = None) -> None:
        """Without an export nothing is told: a command writes for itself."""
        self._export, self._told = export, 0.0

    def tell(self, done: int, total: int) -> None:
        """`done` of about `total`; written once a second at most. Raises Cancelled."""
        if self._export is None or time.monotonic() - self._told < BEAT_S:
            return
        self._told = time.monotonic()
        rows = Export.objects.filter(pk=self._export.pk)
        rows.update(progress={"done": done, "total": max(done, total)}, heartbeat_at=timezone.now())
        if rows.filter(cancel_asked=True).exists():
            raise Cancelled


Write = Callable[[Export, Path, Progress], dict[str, Any]]
"""Writes files into an empty folder; returns what `Export.made` says of them but the files."""


def ask(what: str, *, by: User | None, **fields: Any) -> Export:
    """Have a worker make these files."""
    return Export.objects.create(what=what, by=by, **fields)


def cancel(export: Export) -> None:
    """Have this not made: at once where it waits, within seconds where it is being written. What is ready stays."""
    with suppress(IllegalMove):
        if export.status == Status.QUEUED:
            export.move(Status.CANCELLED)
            return
    Export.objects.filter(pk=export.pk, status=Status.WRITING).update(cancel_asked=True)


def carry_out(pk: int, whats: Collection[str], write: Write) -> None:
    """Make what was asked for, if it is of this sort and waits: its files appear together, or not at all."""
    export = Export.objects.filter(pk=pk, what__in=whats, status=Status.QUEUED).first()
    if export is None:
        return
    try:
        export.move(Status.WRITING, heartbeat_at=timezone.now(), progress={})
    except IllegalMove:  # another worker has it
        return
    partial = export.folder.with_name(f".{export.pk}.{uuid.uuid4().hex[:8]}")
    partial.mkdir(parents=True)
    try:
        made = write(export, partial, Progress(export))
        made["files"] = [described(file) for file in sorted(partial.iterdir())]
        shutil.rmtree(export.folder, ignore_errors=True)  # of a worker that died just here
        os.rename(partial, export.folder)
        _end(export, Status.READY, made=made, expires_at=timezone.now() + KEPT)
    except Cancelled:
        _end(export, Status.CANCELLED)
    except TalkbackError as error:
        _end(export, Status.FAILED, error=str(error))
    except OSError as error:
        log.exception("%s could not be written", export)
        _end(export, Status.FAILED, error=f"The files could not be written: {error.strerror or error}.")
    except Exception:
        said = gettext_noop("A fault stopped it: the worker's log says more. Ask for it again.")
        _end(export, Status.FAILED, error=said)
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def described(file: Path) -> dict[str, Any]:
    """What is said of one file: its name, its size in bytes, its SHA-256."""
    return {"name": file.name, "bytes": file.stat().st_size, "sha256": sha256_of(file)}


def file_of(export: Export, name: str) -> Path:
    """One of its files. Raises ExportGone."""
    if export.status != Status.READY or name not in [one["name"] for one in export.made.get("files", ())]:
        raise ExportGone(_("There is no such file: it was deleted when its time was over, or never made."))
    file = export.folder / name
    if not file.is_file():
        said = _("%(file)s is not on this machine's disk any more: have it made again.")
        raise ExportGone(said % {"file": name})
    return file


def delete(export: Export, why: str = "") -> None:
    """Delete the files of an export that is ready, and say why."""
    with suppress(IllegalMove):
        export.move(Status.GONE, error=why)
        shutil.rmtree(export.folder, ignore_errors=True)


def prune() -> int:
    """Delete files whose time is over, and what dead workers left. Returns how many exports went."""
    over = list(Export.objects.filter(status=Status.READY, expires_at__lte=timezone.now()))
    for export in over:
        delete(export)
    lost = Export.objects.filter(status=Status.WRITING)
    for export in lost:
        patience = LOST.get(Export.What(export.what), LOST_WEIGHTS)
        if (export.heartbeat_at or export.moved_at) < timezone.now() - patience:
            with suppress(IllegalMove):
                export.move(Status.CANCELLED if export.cancel_asked else Status.QUEUED)
    home = Path(settings.DATA_DIR) / "exports"
    writing = set(lost.values_list("pk", flat=True))
    for left in home.glob(".*.*"):
        if (number := left.name.split(".")[1]).isdecimal() and int(number) not in writing:
            shutil.rmtree(left, ignore_errors=True)
    return len(over)


def _end(export: Export, status: str, **fields: Any) -> None:
    with suppress(IllegalMove):  # it was taken for lost meanwhile, and another worker makes it
        export.move(status, heartbeat_at=None, **fields)
