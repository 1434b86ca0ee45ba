"""Measure how long no person has chatted, so that learning can give way to people."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from chat.models import Turn


def last_chat() -> datetime | None:
    """When a person last asked or was last answered, in a browser or through a key: now, while a reply is being
    written. None when there never was a chat."""
    if Turn.objects.filter(status=Turn.Status.ANSWERING).exists():
        return timezone.now()
    newest = Turn.objects.order_by("-created_at").values_list("created_at", "served_at").first()
    return max(filter(None, newest)) if newest else None
