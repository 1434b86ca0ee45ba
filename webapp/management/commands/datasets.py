"""Export what people taught as rows for other trainers."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from checkpoints.models import SHARED
from core.errors import TalkbackError
from evaluation.datasets import exporting
from evaluation.datasets.columns import FORMATS, KINDS, SHAPES
from evaluation.datasets.filters import STATES, Filters
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Export what people taught as JSON lines or Parquet, in TRL's columns for SFT, DPO and KTO."

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

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
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
