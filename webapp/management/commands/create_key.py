"""Print a new API key."""

from __future__ import annotations

import os
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from chat.api.access import SCOPES
from chat.api_keys import ApiKey, usual_scopes
from webapp.console.key_pages import KeyForm
from webapp.management.terminal import TerminalCommand
from webapp.people.enter import ADMINISTRATOR, administrator


class Command(TerminalCommand):
    help = "Print a new API key. Only its hash is kept: this is the one time it is shown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what it is for, as the page of keys will list it")
        parser.add_argument("--user", default=ADMINISTRATOR, help="whose it is")
        parser.add_argument(
            "--keep", action="store_true", help="print the key in API_KEY instead, if it still opens the door"
        )
        usual = " and ".join(usual_scopes())
        parser.add_argument("--scope", action="append", choices=SCOPES, help=f"what it opens; again for more ({usual})")
        parser.add_argument("--serve-only", action="store_true", help="nothing that comes through it is learned from")
        parser.add_argument("--checkpoint", type=int, metavar="N", help="the one that answers it, whatever is live")
        parser.add_argument("--requests-per-minute", type=int, metavar="N")
        parser.add_argument("--tokens-per-day", type=int, metavar="N", help="prompts and replies together")
        parser.add_argument("--days", type=int, metavar="N", help="after which it expires")

    def handle(self, *args: Any, user: str, keep: bool, **options: Any) -> None:
        person = administrator() if user == ADMINISTRATOR else User.objects.filter(username=user).first()
        if person is None:
            raise CommandError(f"There is no user named {user}.")
        kept = os.environ.get("API_KEY", "") if keep else ""
        if kept and ApiKey.objects.find_open(kept):
            self.stdout.write(kept)
            return
        given = {
            name: options[name] for name in ("name", "checkpoint", "requests_per_minute", "tokens_per_day", "days")
        }
        form = KeyForm(
            person, given | {"scopes": options["scope"] or usual_scopes(), "learns": not options["serve_only"]}
        )
        if not form.is_valid():
            raise CommandError(" ".join(f"{name}: {' '.join(map(str, said))}" for name, said in form.errors.items()))
        _, secret = form.issue()
        self.stdout.write(secret)
