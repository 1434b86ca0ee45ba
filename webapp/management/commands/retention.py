"""List which weights are kept on this disk and why, and delete those that nothing holds, unless it is a dry run."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from core.errors import TalkbackError
from training.provenance import retention
from training.provenance.retention import size
from webapp.management.commands.checkpoints import find
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="say what would go, and remove nothing")
        parser.add_argument("--pin", type=int, metavar="N", help="keep this one until it is unpinned")
        parser.add_argument("--unpin", type=int, metavar="N", help="let the rules decide of this one again")
        parser.add_argument("--reason", default="", help="why it is pinned")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.act(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def act(self, dry_run: bool, pin: int | None, unpin: int | None, reason: str, **options: Any) -> None:
        if pin is not None:
            retention.pin(find(pin), by=None, reason=reason)
        if unpin is not None:
            retention.unpin(find(unpin), by=None, reason=reason)
        stored = retention.plan()
        for one in stored:
            why = "; ".join(one.reasons) or ("would go" if dry_run else "goes")
            self.stdout.write(f"{one.checkpoint!s:<20} {one.checkpoint.status:<10} {size(one.bytes):>10}  {why}")
        self.stdout.write(retention.disk(stored).sentence)
        if dry_run or pin is not None or unpin is not None:
            return
        went = retention.sweep()
        self.stdout.write(f"{len(went)} let go of." if went else "Nothing was let go of.")
