"""Show why each turn became a sample or did not: counts, filters, and each reason's turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from chat.models import Session, Turn
from judge.samples import ledger
from judge.samples.ledger import Entry, Stands
from webapp.console.doors import needs

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TIMES = {
    "24h": (gettext_lazy("24 hours"), timedelta(hours=24)),
    "7d": (gettext_lazy("7 days"), timedelta(days=7)),
    "all": (gettext_lazy("all time"), None),
}
USUAL = "7d"


class Column(NamedTuple):
    """A way to divide the ledger."""

    head: StrOrPromise
    link: StrOrPromise
    title: StrOrPromise
    column: str
    """Of the turns."""


COLUMNS = {
    "person": Column(
        gettext_lazy("Person"), gettext_lazy("person"), gettext_lazy("By person"), "session__user__username"
    ),
    "client": Column(gettext_lazy("Client"), gettext_lazy("client"), gettext_lazy("By client"), "session__client"),
    "session": Column(gettext_lazy("Session"), gettext_lazy("session"), gettext_lazy("By session"), "session"),
}
"""What the ledger can be narrowed and divided by."""

MOST = 12
"""How many persons, clients or sessions a table shows, the busiest first."""
SHOWN = 40
"""How many turns of one reason are listed."""


@dataclass(frozen=True)
class Chosen:
    """What the page shows. An unknown value in an address is left out, so that any address shows a ledger."""

    time: str = USUAL
    person: str = ""
    client: str | None = None
    """Empty: the browser. None: all."""
    session: str = ""
    by: str = "client"
    code: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Chosen:
        said = {name: str(query.get(name, "")).strip() for name in query}
        time, by, code = said.get("time", ""), said.get("by", ""), said.get("code", "")
        return cls(
            time if time in TIMES else USUAL,
            said.get("person", "")[:150],
            said["client"][:40] if "client" in said else None,
            session_in(said.get("session", "")),
            by if by in COLUMNS else "client",
            code if code in ledger.SENTENCES else "",
        )

    def but(self, **changes: Any) -> Chosen:
        return replace(self, **changes)

    @property
    def query(self) -> str:
        """As it stands in an address, defaults left out."""
        said = {
            "time": "" if self.time == USUAL else self.time,
            "person": self.person,
            "session": self.session,
            "by": "" if self.by == "client" else self.by,
            "code": self.code,
        }
        kept = {name: value for name, value in said.items() if value}
        if self.client is not None:
            kept["client"] = self.client
        return urlencode(kept)

    @property
    def is_narrow(self) -> bool:
        return bool(self.person or self.session) or self.client is not None

    def turns(self) -> QuerySet[Turn]:
        """The turns that are counted; all reasons."""
        rows = Turn.objects.all()
        if (span := TIMES[self.time][1]) is not None:
            rows = rows.filter(created_at__gte=timezone.now() - span)
        if self.person:
            rows = rows.filter(session__user__username=self.person)
        if self.client is not None:
            rows = rows.filter(session__client=self.client)
        if self.session:
            rows = rows.filter(session_id=UUID(self.session))
        return rows


@dataclass(frozen=True)
class Group:
    """One person, client or session in the second table."""

    name: str
    query: str
    turns: int
    samples: int
    commonest: str
    """The commonest reason of those that made no sample, as a sentence; empty where all did."""


@needs("review")
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    chosen = Chosen.of(request.GET)
    entries = ledger.counted(chosen.turns())
    narrowed_to = Session.objects.filter(pk=chosen.session).select_related("user").first() if chosen.session else None
    context = {
        "chosen": chosen,
        "entries": [(entry, chosen.but(code=entry.code).query) for entry in entries],
        "total": sum(entry.turns for entry in entries),
        "samples": sum(entry.turns for entry in entries if entry.code == Stands.SAMPLE.code),
        "times": [(name, words, chosen.but(time=name).query) for name, (words, _span) in TIMES.items()],
        "columns": [(name, one.link, chosen.but(by=name).query) for name, one in COLUMNS.items()],
        "column": COLUMNS[chosen.by].head,
        "divided_by": COLUMNS[chosen.by].title,
        "groups": divided(chosen),
        "narrowed_to": narrowed_to,
        "without": chosen.but(person="", client=None, session="").query,
        "opened": opened(chosen, entries) if chosen.code else None,
        "closed": chosen.but(code="").query,
    }
    return render(request, "judging/ledger.html", context)


def opened(chosen: Chosen, entries: list[Entry]) -> dict[str, Any]:
    """The newest turns of one reason, each with the verdict's own sentence; those off the record are only counted."""
    entry = next((one for one in entries if one.code == chosen.code), Entry(chosen.code, 0, 0.0))
    rows = chosen.turns().annotate(why=ledger.CODE).filter(why=chosen.code).order_by("-created_at")
    rows = rows.filter(learns=True, session__learns=True)
    on_record = rows.count()
    shown = rows.select_related("judgement__sample", "session__user", "checkpoint")[:SHOWN]
    return {
        "entry": entry,
        "turns": [(turn, ledger.told(turn, getattr(turn, "judgement", None))) for turn in shown],
        "more": max(0, on_record - SHOWN),
        "off_record": entry.turns - on_record,
    }


def divided(chosen: Chosen) -> list[Group]:
    """The turns by person, client or session, the busiest first."""
    table = ledger.counted_by(chosen.turns(), COLUMNS[chosen.by].column)
    busiest = sorted(table.items(), key=lambda row: (-sum(row[1].values()), str(row[0])))[:MOST]
    titles = names_of([pk for pk, _counts in busiest if isinstance(pk, UUID)])
    groups = []
    for value, counts in busiest:
        others = {code: number for code, number in counts.items() if code != Stands.SAMPLE.code}
        commonest = max(others, key=lambda code: (others[code], code), default="")
        groups.append(
            Group(
                titles.get(value, str(value)) or _("the browser"),
                chosen.but(**{chosen.by: str(value)}).query,
                sum(counts.values()),
                counts.get(Stands.SAMPLE.code, 0),
                ledger.meaning(commonest) if commonest else "",
            )
        )
    return groups


def names_of(sessions: list[UUID]) -> dict[object, str]:
    """What sessions are called, with whose they are."""
    rows = Session.objects.filter(pk__in=sessions).select_related("user")
    return {row.pk: f"{row.external_id or row} · {row.user}" for row in rows}


def session_in(said: str) -> str:
    try:
        return str(UUID(said))
    except ValueError:
        return ""


urls = [path("ledger/", overview, name="ledger")]
