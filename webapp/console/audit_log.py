"""Read the audit log: rulings on hints and rewards, decisions about checkpoints, and all other deeds, as one list.

Each stays in the table of its own room; here they are merged by time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils import timezone

from accounts.deeds import KINDS
from accounts.models import Deed
from checkpoints.models import Decision
from judge.models import Ruling
from webapp.console.review.queues import words
from webapp.serving import streams

Row = Ruling | Decision | Deed
SOURCES: tuple[type[Ruling] | type[Decision] | type[Deed], ...] = (Ruling, Decision, Deed)
"""In this order where two happened at once."""
NAMES = {Ruling: "ruling", Decision: "decision", Deed: "deed"}

NO_PERSON = "none"
"""In an address: what no person did: a policy that a person had set, or evidence that changed."""

VERBS = [*Ruling.Verb.values, *(verb for verb in Decision.Verb.values if verb not in Ruling.Verb.values)]


@dataclass(frozen=True)
class Cursor:
    """How far each table was read: the number of its last row that was shown."""

    pks: tuple[int, ...]

    @classmethod
    def read(cls, said: str) -> Cursor | None:
        """From an address; None for what is none."""
        parts = said.split("-")
        is_one = len(parts) == len(SOURCES) and all(part.isdecimal() and len(part) < 20 for part in parts)
        return cls(tuple(min(int(part), LARGEST) for part in parts)) if is_one else None

    def __str__(self) -> str:
        return "-".join(map(str, self.pks))

    def after(self, rows: Iterable[Row]) -> Cursor:
        """Where the reader of these rows, newest first, goes on."""
        last = dict(zip(SOURCES, self.pks, strict=True)) | {type(row): row.pk for row in rows}
        return Cursor(tuple(last[source] for source in SOURCES))


LARGEST = 2**63 - 1
START = Cursor((LARGEST,) * len(SOURCES))


@dataclass(frozen=True)
class Filters:
    """Which of the log is listed."""

    person: str = ""
    kind: str = ""
    verb: str = ""
    turn: UUID | None = None
    since: date | None = None
    until: date | None = None

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        verb, kind, turn = query.get("verb", ""), query.get("kind", ""), None
        with suppress(ValueError):
            turn = UUID(query.get("turn", "").strip())
        return cls(
            words(query, "person", 150),
            kind if kind in KINDS else "",
            verb if verb in VERBS else "",
            turn,
            day(query.get("since", "")),
            day(query.get("until", "")),
        )

    @property
    def query(self) -> str:
        said = {name: getattr(self, name) for name in ("person", "kind", "verb", "turn", "since", "until")}
        return urlencode({name: value for name, value in said.items() if value})

    def rows(self, source: type[Row]) -> QuerySet[Any]:
        """Those of one table, in no order."""
        rows: QuerySet[Any] = source._default_manager.select_related(*RELATED[source])
        if self.person == NO_PERSON:
            rows = rows.filter(by=None)
        elif self.person:
            by = Q(by__username=self.person)
            rows = rows.filter(by | Q(whom__username=self.person) if source is Deed else by)
        if self.kind:
            rows = of_kind(rows, source, self.kind)
        if self.verb:
            rows = rows.filter(verb=self.verb)
        if self.turn:
            rows = rows.filter(turn=self.turn) if source is Ruling else rows.none()
        if self.since:
            rows = rows.filter(at__gte=start_of(self.since))
        if self.until:
            rows = rows.filter(at__lt=start_of(self.until + timedelta(days=1)))
        return rows

    def page(self, after: Cursor, size: int) -> list[Row]:
        """The rows that follow `after`, newest first: one question a table. Rows are written in the order of their
        numbers."""
        found = [
            list(self.rows(source).filter(pk__lt=pk).order_by("-pk")[:size])
            for source, pk in zip(SOURCES, after.pks, strict=True)
        ]
        return list(heapq.merge(*found, key=place, reverse=True))[:size]

    def everything(self, at_once: int) -> Iterator[Row]:
        """All of it until now, oldest first, a few of each table in memory."""
        now = timezone.now()  # the download itself is written into the log after this
        tables = [streams.by_key(self.rows(source).filter(at__lt=now).order_by("pk"), at_once) for source in SOURCES]
        return heapq.merge(*tables, key=place)


def place(row: Row) -> tuple[datetime, int, int]:
    """By what the rows of several tables stand in one order."""
    return row.at, SOURCES.index(type(row)), row.pk


RELATED: dict[Any, tuple[str, ...]] = {
    Ruling: ("by", "hint", "undoes", "undone_by"),
    Decision: ("by", "checkpoint", "line"),
    Deed: ("by", "whom"),
}


def of_kind(rows: QuerySet[Any], source: type[Row], kind: str) -> QuerySet[Any]:
    if source is Deed:
        return rows.filter(kind=kind)
    if source is Decision:
        return rows if kind == "approval" else rows.none()
    if kind == "recipe":
        return rows.filter(verb=Ruling.Verb.POLICY)
    return rows.exclude(verb=Ruling.Verb.POLICY) if kind == "review" else rows.none()


def kind_of(row: Row) -> str:
    """The sort of decision that a row is, as KINDS names it."""
    if isinstance(row, Deed):
        return row.kind
    if isinstance(row, Decision):
        return "approval"
    return "recipe" if row.verb == Ruling.Verb.POLICY else "review"


def day(said: str) -> date | None:
    with suppress(ValueError):
        return date.fromisoformat(said)
    return None


def start_of(when: date) -> datetime:
    """Midnight in this installation's time zone."""
    return timezone.make_aware(datetime.combine(when, time()))
