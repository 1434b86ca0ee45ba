"""Write points in time for people."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at: datetime) -> str:
    """A point in time for people: "20 November 2026, 10:04 UTC"."""
    return f"{at.astimezone(UTC):%-d %B %Y, %H:%M} UTC"
