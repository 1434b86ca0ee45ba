"""Export what people taught as rows for other trainers; import examples as lessons."""

from __future__ import annotations

import tempfile
import zipfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management.base import CommandError

from chat.rendering.renderer import Renderer
from checkpoints.models import SHARED, Line
from core.errors import TalkbackError
from evaluation.datasets import exporting, importing
from evaluation.datasets.columns import FORMATS, KINDS, SHAPES
from evaluation.datasets.filters import STATES, Filters
from evaluation.models import Import
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = (
        "Export what people taught, in TRL's columns for SFT, DPO and KTO; import the same as lessons, and undo that."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        export = actions.add_parser("export", help="write rows, where each comes from, and a manifest to a new folder")
        export.add_argument("folder", type=Path)
        export.add_argument("--kind", choices=list(KINDS), default="sft")
        export.add_argument("--shape", choices=SHAPES, default="prompt", help="SFT: prompt and completion, or messages")
        export.add_argument("--format", choices=FORMATS, default="jsonl")
        export.add_argument("--state", choices=list(STATES), default="lessons", help="what became of it")
        export.add_argument("--since", default="", metavar="DAY", help="from this day on, as 2026-11-29")
        export.add_argument("--until", default="", metavar="DAY", help="until the end of this day")
        export.add_argument("--line", default=SHARED, metavar="NAME", help="of the people who teach this line")
        export.add_argument("--person", default="", metavar="USER", help="of this person alone")
        export.add_argument("--explicit", action="store_true", help="only what people and tests said")
        export.add_argument("--licence", default="", metavar="NOTE", help="stands in the manifest and beside each row")

        take = actions.add_parser(
            "import", help="make lessons of a file or a folder of examples; without --consent say what it holds"
        )
        take.add_argument("file", type=Path)
        take.add_argument("--line", default=SHARED, metavar="NAME", help="which line learns from it")
        take.add_argument("--origin", default="", metavar="WORDS", help="where the examples come from")
        take.add_argument("--licence", default="", metavar="NOTE")
        take.add_argument("--consent", action="store_true", help="these texts may be learned from")
        undo = actions.add_parser("undo", help="remove the lessons of an import that were not learned yet")
        undo.add_argument("number", type=int)

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, "take" if action == "import" else action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def export(self, folder: Path, **options: Any) -> None:
        filters = Filters.read(options)
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            raise CommandError(f"{folder} is there already: name a folder that is not.") from error
        made = exporting.write(filters, folder)
        self.stdout.write(f"{made['rows']} rows are in {folder / f'{filters.kind}.{filters.format}'}.")
        for why, count in made["left_out"].items():
            self.stdout.write(f"Left out: {count}: {why}.")

    def take(self, file: Path, line: str, origin: str, licence: str, consent: bool, **options: Any) -> None:
        into = Line.objects.filter(name=line).first()
        if into is None:
            raise CommandError(f"No line is called {line}: `lines list` shows those there are.")
        try:
            with zipped(file) if file.is_dir() else file.open("rb") as stream:
                name = f"{file.resolve().name}.zip" if file.is_dir() else file.name
                found = importing.receive(stream, name, by=None, line=into)
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
        importing.look(found.pk)
        found.refresh_from_db()
        if found.status == Import.Status.FAILED:
            raise CommandError(found.error)
        self._refusals(found.found)
        if not (consent and origin.strip()):
            importing.discard(found)
            self.stdout.write(f"{found.found['rows']} examples can be learned from: say --consent and --origin.")
            return
        importing.agree(found, by=None, origin=origin, licence=licence, consents=consent)
        importing.take(found.pk, renderer=Renderer.for_model(settings.MODEL))
        found.refresh_from_db()
        if found.status == Import.Status.FAILED:
            raise CommandError(found.error)
        told = found.taken
        self.stdout.write(f"{told['lessons']} lessons wait; {told['known']} examples the line had already.")
        self.stdout.write(f"`datasets undo {found.pk}` takes back what was not learned yet.")

    def undo(self, number: int, **options: Any) -> None:
        found = Import.objects.filter(pk=number).first()
        if found is None:
            raise CommandError(f"There is no import {number}.")
        removed, learned = importing.undo(found)
        self.stdout.write(f"{removed} lessons went; {learned} had been learned, and stay in the weights.")

    def _refusals(self, told: dict[str, Any]) -> None:
        for place, why in told["where"]:
            self.stdout.write(f"{place}: {why}")


@contextmanager
def zipped(folder: Path) -> Iterator[IO[bytes]]:
    """A folder's files as the zip that is read of them. Links are left out: they lead anywhere."""
    with tempfile.TemporaryFile() as made:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    archive.write(file, file.relative_to(folder).as_posix())
        made.seek(0)
        yield made
