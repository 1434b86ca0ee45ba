"""The desk of hints, as it is after a decision."""

from __future__ import annotations

from judge.models import Hint

HTMX = {"HX-Request": "true"}


def now(hint):
    return Hint.objects.get(pk=hint.pk)
