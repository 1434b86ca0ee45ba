"""List and decide on checkpoints from a terminal."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from accounts.roles import people_who_may
from checkpoints import approvals, promotion
from checkpoints.models import SHARED, Checkpoint
from core.errors import TalkbackError
from training.models import Run
from training.provenance import discards, exports, imports, signing_keys, taints
from webapp.amounts import span
from webapp.management.terminal import TerminalCommand

HERE = "from the command line"
PATIENCE_S = 120


class Command(TerminalCommand):
    help = (
        "List checkpoints; approve, hold, release or reject one; roll back to what was live before; export the weights."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        listing = actions.add_parser("list", help="every checkpoint, newest first")
        listing.add_argument("--json", action="store_true", help="one array of objects")
        approve = actions.add_parser("approve", help="say yes to a checkpoint that passed the gate; it then goes live")
        approve.add_argument("number", type=int)
        approve.add_argument("--reason", default=HERE)
        approve.add_argument("--wait", action="store_true", help=f"until it is live, at most {PATIENCE_S} s")
        reject = actions.add_parser("reject", help="say no to a checkpoint; it never answers")
        reject.add_argument("number", type=int)
        reject.add_argument("--reason", default=HERE)
        hold = actions.add_parser("hold", help="say not yet: it cannot be approved until it is released")
        hold.add_argument("number", type=int)
        hold.add_argument("--reason", required=True)
        release = actions.add_parser("release", help="let a checkpoint on hold wait for a yes again")
        release.add_argument("number", type=int)
        release.add_argument("--reason", default=HERE)
        rollback = actions.add_parser("rollback", help="have what was live before write the next reply")
        rollback.add_argument("--to", type=int, metavar="N", help="to this one instead: any that has been live")
        rollback.add_argument("--line", default="", metavar="NAME", help="of this line; else N's, or the shared one")
        rollback.add_argument("--reason", default=HERE)
        rollback.add_argument(
            "--set-aside", action="store_true", help="nothing learns from what the one left has served"
        )
        for decision in (approve, reject, hold, release, rollback):
            decision.add_argument("--by", default="", metavar="USER", help="who decides; else no person is named")
        export = actions.add_parser("export", help="write its weights to a new folder, for other tools")
        export.add_argument("number", type=int)
        export.add_argument("folder", type=Path)
        export.add_argument("--merged", action="store_true", help="one whole model instead of an adapter")
        export.add_argument("--base", default="", metavar="NAME", help="what the adapter belongs on, as others know it")

        take = actions.add_parser(
            "import", help="take in an adapter that another installation exported, as a candidate"
        )
        take.add_argument("source", type=Path, help="its folder, or a zip or tar file of it")
        take.add_argument("--line", default=SHARED, metavar="NAME", help="which line's candidate it is")
        take.add_argument("--key", type=Path, metavar="PUBLIC", help="whose signature its receipt has to bear")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, "take" if action == "import" else action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def list(self, json: bool, **options: Any) -> None:
        rows = Checkpoint.objects.select_related("line", "parent", "run")
        if json:
            self.stdout.write_json([told(row) for row in rows], indent=2)
            return
        for row in rows:
            whose = "" if row.line.is_shared else f"[{row.line_id}] "
            on_hold = "on hold " if row.is_on_hold and row.status in approvals.WAITS else ""
            run = Run.that_made(row)
            made = f"from {row.parent}, {run}" if run else ""
            said = f"  {row.reason}" if row.status == Checkpoint.Status.REJECTED else ""
            self.stdout.write(f"{row!s:<20} {row.status:<10} {on_hold}{whose}{made}{said}".rstrip())

    def approve(self, number: int, reason: str, wait: bool, by: str, **options: Any) -> None:
        checkpoint = find(number)
        if not approvals.approve(checkpoint, by=person(by), reason=reason):
            self.stdout.write(f"{by} said the first yes of two to {checkpoint}: another person says the second.")
            return
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

    def reject(self, number: int, reason: str, by: str, **options: Any) -> None:
        checkpoint = find(number)
        approvals.reject(checkpoint, by=person(by), reason=reason)
        self.stdout.write(f"{checkpoint} is rejected.")

    def hold(self, number: int, reason: str, by: str, **options: Any) -> None:
        checkpoint = find(number)
        approvals.hold(checkpoint, by=person(by), reason=reason)
        self.stdout.write(f"{checkpoint} is on hold: it cannot be approved until it is released.")

    def release(self, number: int, reason: str, by: str, **options: Any) -> None:
        checkpoint = find(number)
        approvals.release(checkpoint, by=person(by), reason=reason)
        self.stdout.write(f"{checkpoint} waits for a yes again.")

    def rollback(self, to: int | None, reason: str, line: str, by: str, set_aside: bool, **options: Any) -> None:
        began = time.monotonic()
        live = async_to_sync(promotion.roll_back)(
            to=None if to is None else find(to),
            by=person(by),
            reason=reason,
            line=line or None,
            set_aside=discards.set_aside if set_aside else None,
        )
        self.stdout.write(f"{live} is live, after {time.monotonic() - began:.1f} s: it writes the next reply.")
        if (taint := taints.of(live)) is not None:
            self.stdout.write(f"It learned what was taken back since ({taint.samples}): {taint.reason}.")

    def export(self, number: int, folder: Path, merged: bool, base: str, **options: Any) -> None:
        said = exports.export(find(number), folder, merged=merged, base=base)
        self.stdout.write(f"{said} It is in {folder}.")

    def take(self, source: Path, line: str, key: Path | None, **options: Any) -> None:
        signer = signing_keys.public_key(key) if key is not None else None
        made = imports.take(source, line=line, key=signer)
        self.stdout.write(f"{made} is a candidate: the gate examines it, and a person decides.")


def told(row: Checkpoint) -> dict[str, Any]:
    """One checkpoint for scripts."""
    return {
        "number": row.number,
        "name": row.name,
        "line": row.line_id,
        "status": row.status,
        "held": row.is_on_hold,
        "pinned": row.pinned,
        "parent": row.parent.number if row.parent else None,
        "run": run.pk if (run := Run.that_made(row)) else None,
        "reason": row.reason,
        "created_at": row.created_at.isoformat(timespec="seconds"),
        "let_go_at": row.let_go_at.isoformat(timespec="seconds") if row.let_go_at else None,
    }


def person(name: str) -> User | None:
    """Who decides, as they are called here; None where no name was given."""
    if not name:
        return None
    user = people_who_may("checkpoints").filter(username=name).first()
    if user is None:
        raise CommandError(f"No operator here is called {name!r}: --by takes the name of an operator.")
    return user


def find(number: int) -> Checkpoint:
    checkpoint = Checkpoint.objects.filter(number=number).first()
    if checkpoint is None:
        raise CommandError(f"There is no checkpoint {number}: `checkpoints list` shows those there are.")
    return checkpoint
