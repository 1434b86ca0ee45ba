"""Bring the database to this version's tables, unless it would start and not work."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from training import line_recipes
from training.config import RecipeInvalid
from webapp.management.terminal import TerminalCommand

TAKES_OVER_FROM = "6fe218b"
"""The last commit with the migrations that ours replace: only what ran all of them can be taken over."""


class Command(TerminalCommand, migrate.Command):
    """Every start runs this first, so what is refused here is refused before anything was changed."""

    def handle(self, *args: Any, **options: Any) -> None:
        if is_too_old(options["database"]):
            raise CommandError(
                "This database is of an older Talkback than this version can take over, and nothing was changed. Start "
                f"the version between once on the same DATA_DIR (git checkout {TAKES_OVER_FROM}, make up, make down), "
                "then this one again."
            )
        try:
            line_recipes.current()
        except RecipeInvalid as refusal:
            raise CommandError(f"RECIPE={settings.RECIPE}: {refusal}") from refusal
        super().handle(*args, **options)


def is_too_old(database: str) -> bool:
    """Tell whether only some of the migrations that ours replace were run; Django would find no way on from there."""
    try:
        applied = set(MigrationRecorder(connections[database]).applied_migrations())
    except DatabaseError:
        return False  # it cannot be used at all, which Django says itself
    ours = MigrationLoader(None).disk_migrations
    replaced = {old for name, one in ours.items() if name not in applied for old in one.replaces}
    return bool(replaced & applied) and not replaced <= applied
