"""Write and check learning receipts: what weights were made of and who approved them, signed."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from core.errors import TalkbackError
from training.provenance import receipt_checks, receipts, signing_keys
from webapp.management.commands.checkpoints import find
from webapp.management.terminal import TerminalCommand

SIGNS = {True: "holds", False: "DOES NOT HOLD", None: "cannot tell"}


class Command(TerminalCommand):
    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        show = actions.add_parser("show", help="a checkpoint's receipt as it is now, signed")
        show.add_argument("number", type=int)
        actions.add_parser("key", help="the key that receipts of this installation are checked with")
        verify = actions.add_parser("verify", help="hold a receipt against its signature and the files beside it")
        verify.add_argument("path", type=Path, help="an exported folder, or a receipt.json")
        verify.add_argument("--key", type=Path, metavar="PUBLIC", help="whose signature it has to be (a PEM file)")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            getattr(self, action)(**options)
        except TalkbackError as failure:
            raise CommandError(str(failure)) from failure

    def show(self, number: int, **options: Any) -> None:
        self.stdout.write(receipts.written(receipts.receipt(find(number))).decode(), ending="")

    def key(self, **options: Any) -> None:
        key = signing_keys.private_key().public_key()
        self.stdout.write(signing_keys.pem(key).decode() + f"Fingerprint: {signing_keys.fingerprint(key)}")

    def verify(self, path: Path, key: Path | None, **options: Any) -> None:
        told = receipts.read(path)
        wanted = signing_keys.public_key(key) if key is not None else None
        findings = receipt_checks.check(told, folder=path if path.is_dir() else None, key=wanted)
        if receipt_checks.holds(findings):
            findings += receipt_checks.check_here(told)
        for finding in findings:
            self.stdout.write(f"{SIGNS[finding.holds]:<14} {finding.sentence}")
        if not receipt_checks.holds(findings):
            raise CommandError(f"The receipt of {told['parts']['checkpoint'].get('name')} does not hold.")
        self.stdout.write(f"The receipt of {told['parts']['checkpoint'].get('name')} holds.")
