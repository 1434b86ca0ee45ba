"""Print a link that signs the administrator in once."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError, CommandParser

from webapp.management.terminal import TerminalCommand
from webapp.people.enter import ADMINISTRATOR, administrator, link_for


class Command(TerminalCommand):
    help = "Print a link that signs a person in once (the administrator, who is made if there is none)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", default=ADMINISTRATOR, help="whom it signs in")
        parser.add_argument("--address", help="where people reach this installation, as in http://localhost:8000")

    def handle(self, *args: Any, user: str, address: str | None, **options: Any) -> None:
        person = administrator() if user == ADMINISTRATOR else User.objects.filter(username=user).first()
        if person is None:
            raise CommandError(f"There is no user named {user}.")
        if not person.is_active:
            raise CommandError(f"{user} may not sign in: the account is inactive.")
        self.stdout.write((address or settings.ADDRESS).rstrip("/") + link_for(person))
