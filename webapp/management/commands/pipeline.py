"""The board, for a terminal or a script."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from webapp.console import board


class Command(BaseCommand):
    help = "Show the loop: what moves, what waits, and because of what."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="counts by state, the live checkpoint, what waits")

    def handle(self, *args: Any, **options: Any) -> None:
        now = board.read()
        self.stdout.write(json.dumps(now.as_json(), indent=2) if options["json"] else board.text(now))
