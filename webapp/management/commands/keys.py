"""List API keys, and revoke one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from chat.api_keys import ApiKey
from core.visible import visible
from webapp.amounts import span
from webapp.console.key_pages import limits_in_words
from webapp.management.terminal import TerminalCommand


class Command(TerminalCommand):
    help = "List the API keys, or revoke one. `create_key` makes one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="every key, newest first")
        revoke = actions.add_parser("revoke", help="have a key open nothing from now on; this cannot be undone")
        revoke.add_argument("number", type=int, help="as the list shows it")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        getattr(self, action)(**options)

    def list(self, **options: Any) -> None:
        for key in ApiKey.objects.of_people().select_related("user", "checkpoint").order_by("-created_at"):
            name = visible(key.name, one_line=True)
            self.stdout.write(f"{key.pk:<5} {key.prefix}…  {key.user!s:<12} {name:<20} {self.about(key)}".rstrip())

    def about(self, key: ApiKey) -> str:
        if key.why_closed:
            return key.why_closed
        used = f"used {span((timezone.now() - key.used_at).total_seconds())} ago" if key.used_at else "never used"
        said = [", ".join(key.scopes), "learns" if key.learns else "serve-only", used, limits_in_words(key)]
        said += [f"answered by {key.checkpoint}"] if key.checkpoint else []
        said += [f"until {key.expires_at:%Y-%m-%d %H:%M} UTC"] if key.expires_at else []
        return "; ".join(filter(None, said))

    def revoke(self, number: int, **options: Any) -> None:
        key = ApiKey.objects.select_related("user").filter(pk=number).first()
        if key is None:
            raise CommandError(f"There is no key {number}: `keys list` shows those there are.")
        key.revoke()
        self.stdout.write(f"{key} is revoked: it opens nothing any more.")
