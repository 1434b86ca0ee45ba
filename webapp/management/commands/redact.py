"""Print a text as it would be learned from: `manage.py redact FILE`. Nothing is stored."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from core.textfiles import read_text
from judge.samples import redaction
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Print a text without secrets and personal data, as it would be learned from; what was removed, to stderr."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="A text file; - reads what is piped in.")

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        try:
            text = sys.stdin.read() if file == "-" else read_text(file)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read as text: {error}") from error
        before, removed = redaction.tried(text)
        self.stdout.write_text("".join(instead or piece for piece, instead in before.pieces))
        for one in removed:
            self.stderr.write(f"removed: {one['count']} {one['kind']}")
        if not removed:
            self.stderr.write("removed: nothing")
