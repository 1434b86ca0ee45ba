"""Export a dataset: rows in one file, where each comes from in a second, and a manifest of both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from chat.models import Turn
from evaluation import exports
from evaluation.datasets import files, gathering
from evaluation.datasets.cleaning import Why
from evaluation.datasets.columns import digest, row_of
from evaluation.datasets.files import JsonLines, Parquet, RowFile
from evaluation.datasets.filters import Filters
from evaluation.datasets.gathering import Found
from evaluation.exports import Progress
from evaluation.models import Export
from feedback.models import Feedback
from training import versions

FORMAT_VERSION = 1
"""Of the manifest and of the file of origins."""

ORIGINS, MANIFEST = "provenance.jsonl", "manifest.json"

AGAIN = timedelta(hours=1)

TAKEN_BACK = gettext_noop(
    "%(n)s of its rows were taken back since it was made. Have it made again: it will do without them."
)
"""Why a dataset is there no more; its row keeps it in English."""

SHOWN, LOOKED_THROUGH = 5, 50
"""Rows of a preview, and of how many of the newest turns it tells what would be left out."""


@dataclass(frozen=True)
class Preview:
    """The first rows, and what the newest turns come to."""

    rows: list[tuple[dict[str, Any], gathering.Origin]]
    turns: int
    """How many turns the filters ask for."""
    found: int
    """How many rows came of those that were looked through."""
    looked_through: int
    left_out: list[tuple[str, int]]
    """(why, how many) of these, the most frequent first."""
    off_record: int


def preview(filters: Filters) -> Preview:
    """What an export would begin with, of the newest turns."""
    found: list[Found] = []
    left_out: Counter[str] = Counter()
    newest, total = gathering.newest(filters, LOOKED_THROUGH)
    for one in gathering.gather(filters, of=newest):
        if isinstance(one, Why):
            left_out[one.value] += 1
        else:
            found.append(one)
    rows = [(row_of(one.lesson, filters.kind, filters.shape), one.origin) for one in found[-SHOWN:][::-1]]
    off = gathering.off_record(filters)
    return Preview(rows, total, len(found), min(total, LOOKED_THROUGH), left_out.most_common(), off)


def ask(filters: Filters, *, by: User) -> Export:
    """Have a worker write this dataset. Raises ExportRefused where Parquet cannot be written here."""
    if filters.format == "parquet":
        files.require_parquet()
    return exports.ask(Export.What.DATASET, by=by, asked=filters.asked())


def make(pk: int) -> None:
    """Write a dataset that was asked for."""
    exports.carry_out(pk, {Export.What.DATASET}, _write)


def _write(export: Export, folder: Path, progress: Progress) -> dict[str, Any]:
    return write(Filters.read(export.asked), folder, progress)


def write(filters: Filters, folder: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Write the dataset into `folder`, a row at a time, and return {"rows", "left_out", "sources"}."""
    progress = progress or Progress()
    total, done = gathering.count(filters), 0
    left_out, sources = Counter[str](), Counter[str]()
    rows = folder / f"{filters.kind}.{filters.format}"
    with ExitStack() as stack:
        out: RowFile = Parquet(rows, filters.kind, filters.shape) if filters.format == "parquet" else JsonLines(rows)
        stack.enter_context(out)
        origins = stack.enter_context(JsonLines(folder / ORIGINS))
        for one in gathering.gather(filters):
            done += 1
            progress.tell(done, total)
            if isinstance(one, Why):
                left_out[one.value] += 1
                continue
            row = row_of(one.lesson, filters.kind, filters.shape)
            out.write(row)
            told = {"row": sources.total(), "sha256": digest(row), **one.origin.told(), "licence": filters.licence}
            origins.write(told)
            sources[one.origin.source] += 1
    if off := gathering.off_record(filters):
        left_out[Why.OFF.value] += off
    made = {"rows": sources.total(), "left_out": dict(left_out.most_common()), "sources": dict(sources.most_common())}
    manifest = {
        "version": FORMAT_VERSION,
        "made_by": f"Talkback {versions.ours()}",
        "made_at": timezone.now().isoformat(timespec="seconds"),
        "filters": filters.asked(),
        "licence": filters.licence,
        **made,
        "files": [exports.described(folder / name) for name in (rows.name, ORIGINS)],
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return made


def check(export: Export) -> None:
    """See that all that a dataset was made of may still leave: what was withdrawn, deleted or taken off the record
    since it was written deletes its files. Raises ExportGone."""
    if export.what != Export.What.DATASET:
        return
    if gone := sum(map(_gone, _origins(export))):
        exports.delete(export, TAKEN_BACK % {"n": gone})
        raise exports.ExportGone(_(TAKEN_BACK) % {"n": gone})


def check_again() -> None:
    """Check one of the datasets that were not looked at for an hour, so that what is taken back is not on the disk."""
    rows = Export.objects.filter(status=Export.Status.READY, what=Export.What.DATASET).order_by("pk")
    due = Q(heartbeat_at=None) | Q(heartbeat_at__lt=timezone.now() - AGAIN)
    if (found := rows.filter(due).first()) is not None:
        rows.filter(pk=found.pk).update(heartbeat_at=timezone.now())
        with suppress(exports.ExportGone):
            check(found)


def _origins(export: Export) -> Iterator[list[dict[str, Any]]]:
    """Where its rows come from, a few hundred in memory."""
    with exports.file_of(export, ORIGINS).open(encoding="utf-8") as lines:
        while some := [json.loads(line) for line in islice(lines, files.GROUP)]:
            yield some


def _gone(origins: list[dict[str, Any]]) -> int:
    """How many of these rows may not leave any more."""
    turns = {pk for one in origins for pk in _turns_of(one)}
    stands = Q(judgement__isnull=True) | Q(judgement__held_out=False)
    rows = Turn.objects.filter(gathering.ON_RECORD, stands, pk__in=turns)
    left = {str(pk) for pk in rows.values_list("pk", flat=True)}
    said = {one["feedback"] for one in origins if one["feedback"] is not None}
    standing = {None, *Feedback.objects.standing().filter(pk__in=said).values_list("pk", flat=True)}
    return sum(one["feedback"] not in standing or not left.issuperset(_turns_of(one)) for one in origins)


def _turns_of(origin: dict[str, Any]) -> list[str]:
    """The turns whose words are in this row."""
    return [pk for pk in (origin["turn"], origin["other"]) if pk and not pk.startswith("comparison:")]
