"""Show the audit log: who decided what, when, why and from where; filter it, download it."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext, pgettext_lazy
from django.views.decorators.http import require_GET

from accounts.deeds import KINDS
from accounts.roles import people_who_may
from checkpoints.models import Decision
from core.textfiles import write_line
from judge.models import Ruling
from webapp.console.audit_log import NAMES as SOURCE_NAMES
from webapp.console.audit_log import NO_PERSON, START, VERBS, Cursor, Filters, Row, kind_of
from webapp.console.doors import needs
from webapp.console.review.desk import is_fragment, signed
from webapp.console.training import policy_pages, recipe_pages
from webapp.serving import streams

PAGE = 50

CHUNK = 500
"""How many decisions a download reads and sends at once."""

SUGGESTED = 200
"""How many names the filter suggests; any other may be typed."""

COLUMNS = (
    *("log", "number", "at", "by", "kind", "verb", "whom", "about", "address", "outcome"),
    *("turn", "hint", "before", "after", "reason", "undoes", "bulk"),
)


@needs("audit")
@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """The log, a page at a time."""
    filters, before = Filters.of(request.GET), Cursor.read(request.GET.get("before", ""))
    page = filters.page(before or START, PAGE + 1)
    for row in page:
        row.source, row.kind_in_words = SOURCE_NAMES[type(row)], str(KINDS[kind_of(row)])  # type: ignore[union-attr]
        if isinstance(row, Ruling):
            row.changes = changes(row)  # type: ignore[attr-defined]
    context: dict[str, Any] = {
        "filters": filters,
        "rows": page[:PAGE],
        "more": (before or START).after(page[:PAGE]) if len(page) > PAGE else None,
    }
    if is_fragment(request) and before:
        return render(request, "console/_audit_rows.html", context)
    context["people"] = people_who_may("console").order_by("username").values_list("username", flat=True)[:SUGGESTED]
    kinds = [(name, str(title)) for name, title in KINDS.items()]
    return render(request, "console/audit.html", context | {"verbs": VERBS, "kinds": kinds, "no_person": NO_PERSON})


@needs("audit")
@require_GET
def export(request: HttpRequest, form: str) -> HttpResponse:
    """The whole log, as far as it is narrowed, oldest first: one JSON object a line, or a table."""
    rows = Filters.of(request.GET).everything(CHUNK)
    name = f"talkback-audit-{timezone.now():%Y-%m-%d}.{form}"
    lines, kind = (as_jsonl(rows), "application/x-ndjson") if form == "jsonl" else (as_csv(rows), "text/csv")
    response = StreamingHttpResponse(sent(lines), content_type=f"{kind}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response  # type: ignore[return-value]  # the stubs part the two; needs() takes either


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
            n = len(after or before or {})
            said = ngettext("%(n)s changed with it", "%(n)s changed with it", n) % {"n": n}
            told.append((gettext("other hints"), "", said))
        else:
            told.append((str(NAMES.get(name, name)), in_words(name, before), in_words(name, after)))
    return told


NAMES = {
    "merged_into": gettext_lazy("merged into"),
    "learns": gettext_lazy("may teach"),
    "overruling": gettext_lazy("reviewer’s word"),
    "above": gettext_lazy("accepted from"),
    "status": gettext_lazy("status"),
    "text": gettext_lazy("text"),
    "reward": gettext_lazy("reward"),
    "recipe": gettext_lazy("recipe"),
    "policy": gettext_lazy("policy"),
}
"""What a ruling changes, as the page names it; else by its field's name."""

STATES = {
    "waiting": pgettext_lazy("hint", "waiting"),
    "accepted": pgettext_lazy("hint", "accepted"),
    "edited": pgettext_lazy("hint", "edited"),
    "merged": pgettext_lazy("hint", "merged"),
    "rejected": pgettext_lazy("hint", "rejected"),
}


def in_words(name: str, value: Any) -> str:
    """One value of a ruling for people."""
    if name == "overruling":
        return signed(value["reward"]) if value else "–"
    if name == "reward":
        return signed(value)
    if name == "above":
        return gettext("always waits") if value is None else f"{100 * value:g} %"
    if name == "recipe":
        return recipe_pages.in_words(value or {})
    if name == "policy":
        return policy_pages.in_words(value or {})
    if name == "merged_into" and value is not None:
        return gettext("hint %(number)s") % {"number": value}
    if name == "status":
        return str(STATES.get(value, value or "–"))
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    return "–" if value is None or value == "" else str(value)


def record(row: Row) -> dict[str, Any]:
    """One row as it is exported."""
    told: dict[str, Any] = dict.fromkeys(COLUMNS)
    told |= {
        "log": SOURCE_NAMES[type(row)],
        "number": row.pk,
        "at": instant(row.at),
        "by": row.by.get_username() if row.by else None,
        "kind": kind_of(row),
        "verb": row.verb,
    }
    if isinstance(row, Ruling):
        told |= {
            "turn": str(row.turn_id) if row.turn_id else None,
            "hint": row.hint_id,
            "before": row.before,
            "after": row.after,
            "reason": row.reason,
            "undoes": row.undoes_id,
            "bulk": str(row.bulk) if row.bulk else None,
        }
    elif isinstance(row, Decision):
        told |= {"about": str(row.checkpoint), "reason": row.reason}
    else:
        told |= {
            "whom": row.whom.get_username() if row.whom else None,
            "about": row.about,
            "address": row.address,
            "outcome": row.outcome,
        }
    return told


def as_jsonl(rows: Iterator[Row]) -> Iterator[str]:
    return (write_line(record(row)) for row in rows)


class Echo:
    """Where csv writes to: what it writes is what it gives back."""

    def write(self, line: str) -> str:
        return line


def as_csv(rows: Iterator[Row]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow(COLUMNS)
    for row in rows:
        yield writer.writerow([cell(value) for value in record(row).values()])


async def sent(lines: Iterator[str]) -> AsyncIterator[str]:
    async for part in streams.parts(lines, CHUNK):
        yield "".join(part)


def cell(value: Any) -> Any:
    """A value as a table takes it; text that a spreadsheet would run as a formula is quoted, for any person may write
    it, with white space before it that a spreadsheet may drop.

    >>> cell("=HYPERLINK(1)"), cell(" =1"), cell("Be brief."), cell({"a": 1}), cell(None)
    ("'=HYPERLINK(1)", "' =1", 'Be brief.', '{"a": 1}', '')
    """
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and value.lstrip()[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return "" if value is None else value


def instant(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
