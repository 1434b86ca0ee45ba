"""Have SQLite know how its rows lie, so that it asks the index that finds the fewest. PostgreSQL sees to that itself.

Without it SQLite takes any index for as good as any other: a page that asks for a person's lessons read every lesson
there is, for half a minute. A look at some rows of each index is enough, and takes a fraction of a second.
"""

from __future__ import annotations

from typing import Any

from django.db import connections

LOOKED_AT = 400
"""Rows of each index that are looked at."""


def refresh(using: str = "default", **kwargs: Any) -> None:
    """Look at the rows as they lie now. Also what listens for the end of each `migrate`, with which every start
    begins."""
    connection = connections[using]
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA analysis_limit={LOOKED_AT}")
            cursor.execute("ANALYZE")
