"""List the newest turns, and count those that are off the record."""

from __future__ import annotations

from django.db.models import QuerySet
from django.db.models.functions import Lower

from chat.models import Session, Turn
from core.counting import count_rows
from webapp.journeys.known import journeys

OFTEN = (Turn.Status.SERVED, Turn.Status.JUDGED, Turn.Status.CLOSED)
"""States that many turns are in."""

LONG = ("prompt_ids", "logprobs", "judgement__teacher", "judgement__evidence")
"""Columns that the list does not show and that may be long."""


def off_record(status: str = "") -> int:
    """How many turns of one state, or of all, are off the record: they are counted, and not listed."""
    rows = _of(status)
    chats = Session.objects.filter(learns=False).values("pk")
    return sum(count_rows(turns=rows.filter(learns=False), chats=rows.filter(learns=True, session__in=chats)).values())


def _of(status: str) -> QuerySet[Turn]:
    """Turns of one state, or all. A state that most are in is not asked of the index of states: it finds them all."""
    if status in OFTEN:
        return Turn.objects.annotate(state=Lower("status")).filter(state=status)
    return Turn.objects.filter(status=status) if status in Turn.Status.values else Turn.objects.all()


def turns(status: str = "", limit: int = 12) -> list[Turn]:
    """The newest turns on the record, of one state or of all, each with its `journey`."""
    off = Session.objects.filter(learns=False).values("pk")
    # Found without a join: with one a database sorts all turns there are.
    found = _of(status).filter(learns=True).exclude(session__in=off).order_by("-created_at").values("pk")[:limit]
    rows = Turn.objects.filter(pk__in=found).select_related("session", "checkpoint", "judgement")
    newest = list(rows.order_by("-created_at").defer(*LONG))
    stands = journeys(newest)
    for turn in newest:
        turn.journey = stands[turn.pk]  # type: ignore[attr-defined]
    return newest
