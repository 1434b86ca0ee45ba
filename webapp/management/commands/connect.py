"""Print what to paste into a client: the twin of the page /connect/."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from webapp.connecting import PLACEHOLDER, Place, blocks
from webapp.console.connect_page import place
from webapp.management.terminal import TerminalCommand

CLIENTS = [block.name for block in blocks(Place(""))]


class Command(TerminalCommand):
    help = "Print what to paste into a client, with the key in API_KEY (make up keeps one) if there is one."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("client", nargs="+", choices=CLIENTS)
        parser.add_argument("--address", help="where people reach this installation, as in http://localhost:8000")
        parser.add_argument("--key", help="a key's secret, to stand in what is printed")
        parser.add_argument("--json", action="store_true", help="one object: a text for each client")

    def handle(self, *args: Any, client: list[str], address: str | None, key: str | None, **options: Any) -> None:
        there = place(address or settings.ADDRESS, key or os.environ.get("API_KEY") or PLACEHOLDER)
        texts = {block.name: block.text for block in blocks(there) if block.name in client}
        if options["json"]:
            self.stdout.write_json(texts)
        else:
            self.stdout.write("\n\n".join(texts[name] for name in client))
