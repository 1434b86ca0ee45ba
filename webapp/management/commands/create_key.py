"""Print a new API key."""

from __future__ import annotations

import os
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat.models import ApiKey
from webapp.enter import ADMINISTRATOR, administrator


class Command(BaseCommand):
    help = "Print a new API key. Only its hash is kept: this is the one time it is shown."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what it is for, as the console will list it")
        parser.add_argument("--user", default=ADMINISTRATOR, help="whose it is")
        parser.add_argument(
            "--keep", action="store_true", help="print the key in API_KEY instead, if it still opens the door"
        )

    def handle(self, *args: Any, name: str, user: str, keep: bool, **options: Any) -> None:
        person = administrator() if user == ADMINISTRATOR else User.objects.filter(username=user).first()
        if person is None:
            raise CommandError(f"There is no user named {user}.")
        if not name.strip() or len(name) > 80:
            raise CommandError("A key's name has 1 to 80 characters.")
        secret = os.environ.get("API_KEY", "") if keep else ""
        if not (secret and ApiKey.objects.holder(secret)):
            _, secret = ApiKey.objects.issue(person, name.strip())
        self.stdout.write(secret)
