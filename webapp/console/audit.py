"""Show the audit log of hints and rewards: who decided what, when and why; filter it, download it."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_GET

from core.textfiles import write_line
from judge.models import Ruling
from webapp.console.doors import needs
from webapp.console.review.desk import is_fragment, signed, words
from webapp.console.training import policy_pages, recipe_pages
from webapp.serving import streams

PAGE = 50

CHUNK = 500
"""How many decisions a download reads and sends at once."""

NO_PERSON = "none"
"""In an address: what no person did: a policy that a person had set, or evidence that changed."""

COLUMNS = ("number", "at", "by", "verb", "turn", "hint", "before", "after", "reason", "undoes", "bulk")


@dataclass(frozen=True)
class Filters:
    """Which decisions are listed."""

    person: str = ""
    verb: str = ""
    turn: UUID | None = None

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        verb, turn = query.get("verb", ""), None
        with suppress(ValueError):
            turn = UUID(query.get("turn", "").strip())
        return cls(words(query, "person", 150), verb if verb in Ruling.Verb.values else "", turn)

    @property
    def query(self) -> str:
        said = {"person": self.person, "verb": self.verb, "turn": self.turn}
        return urlencode({name: value for name, value in said.items() if value})

    def rows(self) -> QuerySet[Ruling]:
        """All of them, newest first. Rows are written in the order of their numbers and never change."""
        rows = Ruling.objects.select_related("by", "hint", "undoes", "undone_by").order_by("-pk")
        if self.person == NO_PERSON:
            rows = rows.filter(by=None)
        elif self.person:
            rows = rows.filter(by__username=self.person)
        if self.verb:
            rows = rows.filter(verb=self.verb)
        return rows.filter(turn=self.turn) if self.turn else rows


@needs("audit")
@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """The log, a page at a time."""
    filters = Filters.of(request.GET)
    before = request.GET.get("before", "")
    rows = filters.rows()
    if before.isdecimal() and len(before) < 19:
        rows = rows.filter(pk__lt=int(before))
    page = list(rows[: PAGE + 1])
    for ruling in page:
        ruling.changes = changes(ruling)  # type: ignore[attr-defined]
    context: dict[str, Any] = {
        "filters": filters,
        "rulings": page[:PAGE],
        "more": page[PAGE - 1].pk if len(page) > PAGE else None,
    }
    if is_fragment(request) and before:
        return render(request, "console/_audit_rows.html", context)
    context["people"] = User.objects.filter(pk__in=Ruling.objects.values("by")).order_by("username")
    return render(request, "console/audit.html", context | {"verbs": Ruling.Verb.values, "no_person": NO_PERSON})


@needs("audit")
@require_GET
def export(request: HttpRequest, form: str) -> HttpResponse:
    """The whole log, as far as it is narrowed, oldest first: one JSON object a line, or a table."""
    rows = Filters.of(request.GET).rows().order_by("pk")
    name = f"talkback-audit-{timezone.now():%Y-%m-%d}.{form}"
    lines, kind = (as_jsonl(rows), "application/x-ndjson") if form == "jsonl" else (as_csv(rows), "text/csv")
    response = StreamingHttpResponse(sent(lines), content_type=f"{kind}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response  # type: ignore[return-value]  # the stubs part the two; for_staff takes either


urls = [
    path("audit/", audit, name="audit"),
    path("audit/audit.jsonl", export, {"form": "jsonl"}, name="audit_jsonl"),
    path("audit/audit.csv", export, {"form": "csv"}, name="audit_csv"),
]


def changes(ruling: Ruling) -> list[tuple[str, str, str]]:
    """What this decision changed, as (name, before, after), for people; what stayed the same is left out.

    >>> changes(Ruling(before={"status": "waiting", "text": "Be brief."}, after={"status": "edited", "text": "Short."}))
    [('status', 'waiting', 'edited'), ('text', 'Be brief.', 'Short.')]
    """
    told = []
    for name in dict.fromkeys((*ruling.before, *ruling.after)):
        before, after = ruling.before.get(name), ruling.after.get(name)
        if before == after or name in ("decided_by", "decided_at", "waits_because", "reward_from"):
            continue
        if name == "others":
            told.append(("other hints", "", f"{len(after or before or {})} changed with it"))
        else:
            told.append((NAMES.get(name, name), in_words(name, before), in_words(name, after)))
    return told


NAMES = {"merged_into": "merged into", "learns": "may teach", "overruling": "reviewer’s word", "above": "accepted from"}


def in_words(name: str, value: Any) -> str:
    """One value of a ruling for people."""
    if name == "overruling":
        return signed(value["reward"]) if value else "–"
    if name == "reward":
        return signed(value)
    if name == "above":
        return "always waits" if value is None else f"{100 * value:g} %"
    if name == "recipe":
        return recipe_pages.in_words(value or {})
    if name == "policy":
        return policy_pages.in_words(value or {})
    if name == "merged_into" and value is not None:
        return f"hint {value}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None or value == "" else str(value)


def record(ruling: Ruling) -> dict[str, Any]:
    """One decision as it is exported."""
    values = (
        ruling.pk,
        instant(ruling.at),
        ruling.by.get_username() if ruling.by else None,
        ruling.verb,
        str(ruling.turn_id) if ruling.turn_id else None,
        ruling.hint_id,
        ruling.before,
        ruling.after,
        ruling.reason,
        ruling.undoes_id,
        str(ruling.bulk) if ruling.bulk else None,
    )
    return dict(zip(COLUMNS, values, strict=True))


def as_jsonl(rows: QuerySet[Ruling]) -> Iterator[str]:
    return (write_line(record(ruling)) for ruling in streams.by_key(rows, CHUNK))


class Echo:
    """Where csv writes to: what it writes is what it gives back."""

    def write(self, line: str) -> str:
        return line


def as_csv(rows: QuerySet[Ruling]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(COLUMNS)
    for ruling in streams.by_key(rows, CHUNK):
        yield writer.writerow([cell(value) for value in record(ruling).values()])


async def sent(lines: Iterator[str]) -> AsyncIterator[str]:
    async for part in streams.parts(lines, CHUNK):
        yield "".join(part)


def cell(value: Any) -> Any:
    """A value as a table takes it; text that a spreadsheet would run as a formula is quoted, for any person may write
    it.

    >>> cell("=HYPERLINK(1)"), cell("Be brief."), cell({"a": 1}), cell(None)
    ("'=HYPERLINK(1)", 'Be brief.', '{"a": 1}', '')
    """
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return "" if value is None else value


def instant(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
