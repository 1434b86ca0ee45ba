"""Rows as the database has them now."""

from __future__ import annotations

SHORT, LONG = "Answer in one sentence.", "Explain every step."


def fresh(row):
    return type(row).objects.get(pk=row.pk)
