"""Print how the engines are."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from core.errors import TalkbackError
from webapp.console import engine_pages
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Say how each engine is, what it holds and what went wrong last."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--repair", action="store_true", help="first have them hold what the rows say")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["repair"]:
            try:
                loaded = engine_pages.repaired()
            except TalkbackError as failure:
                raise CommandError(str(failure)) from failure
            self.stdout.write(f"Loaded again: {', '.join(loaded)}." if loaded else "Nothing was missing.")
        self.stdout.write(engine_pages.text(engine_pages.read()))
