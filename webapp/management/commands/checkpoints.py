"""The console's decisions, for scripts."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.core.management.base import BaseCommand, CommandError

from core.errors import TalkbackError
from training import exports, promotion
from training.models import Checkpoint
from webapp.console.board import span

HERE = "from the command line"
PATIENCE_S = 120


class Command(BaseCommand):
    help = "List checkpoints; approve or reject a candidate; roll back to what was live before; export the weights."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="every checkpoint, newest first")
        approve = actions.add_parser("approve", help="say yes to a checkpoint that passed the gate; it then goes live")
        approve.add_argument("number", type=int)
        approve.add_argument("--reason", default=HERE)
        approve.add_argument("--wait", action="store_true", help=f"until it is live, at most {PATIENCE_S} s")
        reject = actions.add_parser("reject", help="say no to a checkpoint; it never answers")
        reject.add_argument("number", type=int)
        reject.add_argument("--reason", default=HERE)
        rollback = actions.add_parser("rollback", help="have what was live before write the next reply")
        rollback.add_argument("--to", type=int, metavar="N", help="to this one instead: any that has been live")
        rollback.add_argument("--line", default="", metavar="NAME", help="of this line; else N's, or the shared one")
        rollback.add_argument("--reason", default=HERE)
        export = actions.add_parser("export", help="write its weights to a new folder, for other tools")
        export.add_argument("number", type=int)
        export.add_argument("folder", type=Path)
        export.add_argument("--merged", action="store_true", help="one whole model instead of an adapter")
        export.add_argument("--base", default="", metavar="NAME", help="what the adapter belongs on, as others know it")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def list(self, **options: Any) -> None:
        for row in Checkpoint.objects.select_related("line", "parent", "run"):
            whose = "" if row.line.is_shared else f"[{row.line_id}] "
            made = f"from {row.parent}, {row.run}" if row.run else ""
            said = f"  {row.reason}" if row.status == Checkpoint.Status.REJECTED else ""
            self.stdout.write(f"{row!s:<20} {row.status:<10} {whose}{made}{said}".rstrip())

    def approve(self, number: int, reason: str, wait: bool, **options: Any) -> None:
        checkpoint = find(number)
        promotion.approve(checkpoint, by=None, reason=reason)
        if not wait:
            self.stdout.write(f"{checkpoint} is approved; a worker has the engine prove it, then it goes live.")
            return
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE_S:
            checkpoint.refresh_from_db()
            if checkpoint.status == Checkpoint.Status.LIVE:
                self.stdout.write(f"{checkpoint} is live, after {time.monotonic() - began:.1f} s.")
                return
            if checkpoint.status == Checkpoint.Status.REJECTED:
                raise CommandError(f"{checkpoint} did not go live: {checkpoint.reason}")
            time.sleep(0.2)
        raise CommandError(f"{checkpoint} is still {checkpoint.status} after {span(PATIENCE_S)}: see `pipeline`.")

    def reject(self, number: int, reason: str, **options: Any) -> None:
        checkpoint = find(number)
        promotion.reject(checkpoint, by=None, reason=reason)
        self.stdout.write(f"{checkpoint} is rejected.")

    def rollback(self, to: int | None, reason: str, line: str, **options: Any) -> None:
        back = async_to_sync(promotion.roll_back)
        live = back(to=None if to is None else find(to), reason=reason, line=line or None)
        self.stdout.write(f"{live} is live: it writes the next reply.")

    def export(self, number: int, folder: Path, merged: bool, base: str, **options: Any) -> None:
        said = exports.export(find(number), folder, merged=merged, base=base)
        self.stdout.write(f"{said} It is in {folder}.")


def find(number: int) -> Checkpoint:
    checkpoint = Checkpoint.objects.filter(number=number).first()
    if checkpoint is None:
        raise CommandError(f"There is no checkpoint {number}: `checkpoints list` shows those there are.")
    return checkpoint
