"""Print the board."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from webapp.console import board
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "Show the loop: what moves, what waits, and because of what."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="counts by state, the live checkpoint, what waits")

    def handle(self, *args: Any, **options: Any) -> None:
        now = board.read()
        if options["json"]:
            self.stdout.write_json(now.as_json(), indent=2)
        else:
            self.stdout.write(board.text(now))
