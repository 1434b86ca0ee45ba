"""The review desk for hints: find, call, show. Every page works as plain forms; with htmx only what changed is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_GET, require_POST
from rapidfuzz import fuzz

from core.errors import TalkbackError
from judge import likeness, reviews
from judge.models import Acceptance, Hint, Ruling
from webapp.console import desk
from webapp.console.board import counted
from webapp.console.desk import Filters
from webapp.console.doors import for_staff, person

Parts = dict[str, Any]

DONE = {
    Ruling.Verb.ACCEPT: "Accepted",
    Ruling.Verb.EDIT: "Accepted in your words",
    Ruling.Verb.MERGE: "Merged",
    Ruling.Verb.REJECT: "Rejected",
    Ruling.Verb.NEVER_LEARN: "Never learned from",
    Ruling.Verb.OVERTURN: "Overturned",
    Ruling.Verb.UNDO: "Taken back",
    Ruling.Verb.POLICY: "Changed",
}


TARGETS = 8
"""Hints to merge into that are offered at once; others are found by searching."""


class Unsaid(TalkbackError):
    """A form left out what it is about."""

    code, status = "unsaid", 422


@for_staff
@require_GET
def hints(request: HttpRequest) -> HttpResponse:
    """The desk: the list, and its first hint."""
    filters = Filters.of(request.GET)
    if is_fragment(request):
        listed = desk.listed(filters, request.GET.get("after", ""))
        return render(request, f"console/_hint_{'rows' if 'after' in request.GET else 'queue'}.html", listed)
    return whole(request, filters, after=request.GET.get("after", ""))


@for_staff
@require_GET
def hint(request: HttpRequest, pk: int) -> HttpResponse:
    """One hint, on the desk."""
    filters = Filters.of(request.GET)
    looked_at = desk.found(pk)
    if not is_fragment(request):
        if looked_at is None:
            raise Http404
        return whole(request, filters, looked_at, likely=desk.words(request.GET, "likely", 200))
    if looked_at is None:
        return gone(request, filters, pk)
    if "likely" in request.GET:
        return render(
            request, "console/_hint_targets.html", candidates(looked_at, desk.words(request.GET, "likely", 200))
        )
    strayed = [] if filters.holds(looked_at) else [looked_at]
    return render(request, "console/_hint_parts.html", parts(filters, looked_at, rows=strayed, stays=True))


@for_staff
@require_POST
def decide(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """One verb on one hint; then the next one is on the desk."""
    if verb not in VERBS:
        raise Http404
    filters = back(request)
    about = Hint.objects.select_related("turn__session__user").filter(pk=pk).first()
    if about is None:
        return gone(request, filters, pk)
    following = filters.neighbour(about)
    try:
        ruling = VERBS[verb](about, request)
    except Hint.DoesNotExist:
        return gone(request, filters, pk)
    except TalkbackError as failure:
        return refused(request, filters, pk, failure)
    return done(request, filters, [ruling], following)


@for_staff
@require_POST
def decide_many(request: HttpRequest) -> HttpResponse:
    """One verb on all that were selected: each by itself, so that one that cannot be keeps no other from it."""
    filters = back(request)
    verb = request.POST.get("verb", "")
    selected = dict(value.partition("~")[::2] for value in request.POST.getlist("hint"))
    seen = {int(pk): shown for pk, shown in selected.items() if numbered(pk) is not None}
    about = list(Hint.objects.select_related("turn__session").filter(pk__in=seen).order_by("pk"))
    looked_at = Hint.objects.filter(pk=numbered(request.POST.get("at", "")) or 0).first()
    following = looked_at
    if about and (looked_at is None or looked_at in about):
        following = filters.neighbour(looked_at or about[-1], besides=list(seen))
    try:
        if verb not in MANY:
            raise Unsaid("Say what is to be done with them: accept, reject, or never learn from them.")
        if not about:
            raise Unsaid("Select hints first: x on the keyboard, or the boxes before them.")
        why = desk.words(request.POST, "reason", 500)
        rulings, failures = reviews.bulk(verb, about, by=person(request), reason=why, seen=seen)
    except TalkbackError as failure:
        return refused(request, filters, looked_at.pk if looked_at else None, failure)
    return done(request, filters, rulings, following, failures=failures, many=True)


@for_staff
@require_POST
def undo(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Take back one ruling, or the last of this person; what it was about is on the desk again."""
    filters = back(request)
    by = person(request)
    ruling = get_object_or_404(Ruling.objects.select_related("hint", "turn"), pk=pk) if pk else reviews.last(by)
    looked_at = numbered(request.POST.get("at", ""))
    try:
        if ruling is None:
            raise Unsaid("There is nothing of yours to take back.")
        undone = reviews.undo(ruling, by=by)
    except TalkbackError as failure:
        return refused(request, filters, looked_at, failure)
    again = ruling.hint or Hint.objects.filter(turn=ruling.turn).first() if ruling.turn_id else ruling.hint
    sentence = f"Taken back: {sentence_of(ruling)}"
    if not is_fragment(request):
        messages.success(request, sentence, extra_tags="good")
        return redirect(address(filters, again))
    found = desk.found(again.pk if again else looked_at or 0)
    context = parts(filters, found, toast={"sentence": sentence, "ruling": None, "undone": undone}, whole_queue=True)
    return render(request, "console/_hint_parts.html", context | {"last": reviews.last(by)})


@for_staff
@require_POST
def set_acceptance(request: HttpRequest) -> HttpResponse:
    """From which confidence on hints of each source are accepted without a person; an empty field: they wait."""
    filters, changed = back(request), []
    try:
        wanted = {source: threshold_of(request, source) for source in Hint.Source if source in request.POST}
        for source, above in wanted.items():
            if above != reviews.threshold(source):
                reviews.accept_from(source, above, by=person(request))
                changed.append(str(source))
    except TalkbackError as failure:
        panel = {**policies(request.POST), "filters": filters, "fault": str(failure)}
        if is_fragment(request):
            return render(request, "console/_acceptance.html", panel, status=failure.status)
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(address(filters))
    said = f"Saved, for {', '.join(changed)}. It holds for hints that come from now on." if changed else "As it was."
    if is_fragment(request):
        return render(request, "console/_acceptance.html", {**policies(), "filters": filters, "saved": said})
    messages.success(request, said, extra_tags="good")
    return redirect(address(filters))


urls = [
    path("hints/", hints, name="hints"),
    path("hints/<row:pk>/", hint, name="hint"),
    path("hints/<row:pk>/<str:verb>/", decide, name="hint_decide"),
    path("hints/many/", decide_many, name="hints_decide"),
    path("hints/undo/", undo, name="hint_undo_last"),
    path("hints/undo/<row:pk>/", undo, name="hint_undo"),
    path("hints/acceptance/", set_acceptance, name="hint_acceptance"),
]


def accept(hint: Hint, request: HttpRequest) -> Ruling:
    return reviews.accept(hint, **said(request))


def edit(hint: Hint, request: HttpRequest) -> Ruling:
    text = desk.words(request.POST, "text", 8000).replace("\r\n", "\n")
    if not text:
        raise Unsaid("A hint needs words: write what the reply should do, or reject the hint.")
    return reviews.edit(hint, text, **said(request))


def merge(hint: Hint, request: HttpRequest) -> Ruling:
    into = Hint.objects.filter(pk=numbered(request.POST.get("into", "")) or 0).first()
    if into is None:
        raise Unsaid("Choose the hint that says the same.")
    return reviews.merge(hint, into, **said(request))


def reject(hint: Hint, request: HttpRequest) -> Ruling:
    return reviews.reject(hint, **said(request))


def never_learn(hint: Hint, request: HttpRequest) -> Ruling:
    return reviews.never_learn(hint.turn, by=person(request), reason=said(request)["reason"], hint=hint)


VERBS: dict[str, Callable[[Hint, HttpRequest], Ruling]] = {
    "accept": accept,
    "edit": edit,
    "merge": merge,
    "reject": reject,
    "never": never_learn,
}
MANY = ("accept", "reject", "never learn")


def said(request: HttpRequest) -> dict[str, Any]:
    """Who, what they saw, and why."""
    return {
        "by": person(request),
        "seen": request.POST.get("seen", ""),
        "reason": desk.words(request.POST, "reason", 500),
    }


def whole(
    request: HttpRequest, filters: Filters, at: Hint | None = None, *, after: str = "", likely: str = ""
) -> HttpResponse:
    """The desk as a page."""
    listed = desk.listed(filters, after)
    if at is None and listed["rows"]:
        at = desk.found(listed["rows"][0].pk)
    context = {
        **listed,
        **desk.counts(filters),
        **policies(),
        **detail(at, likely),
        "last": reviews.last(person(request)),
    }
    return render(request, "console/hints.html", context)


def detail(hint: Hint | None, likely: str = "") -> Parts:
    if hint is None:
        return {"hint": None}
    return {**desk.shown(hint), **candidates(hint, likely), "seen": reviews.standing(hint)}


def parts(
    filters: Filters, at: Hint | None, *, rows: Sequence[Hint] = (), whole_queue: bool = False, **more: Any
) -> Parts:
    """What a fragment draws from: the hint at hand, and out of band the rows that changed (or the whole list) and
    the counts."""
    here = set(filters.rows().filter(pk__in=[row.pk for row in rows]).values_list("pk", flat=True)) if rows else set()
    return {
        **detail(at),
        **desk.counts(filters),
        **(desk.listed(filters) if whole_queue else {}),
        "filters": filters,
        "changed": [(row, row.pk in here) for row in rows],
        "whole_queue": whole_queue,
        "pushed": True,
        **more,
    }


def done(
    request: HttpRequest,
    filters: Filters,
    rulings: Sequence[Ruling],
    following: Hint | None,
    *,
    failures: Sequence[str] = (),
    many: bool = False,
) -> HttpResponse:
    """What was done, with a way back, and the next hint."""
    sentence = f"{DONE[Ruling.Verb(rulings[0].verb)]}: {counted(len(rulings), 'hint')}." if many and rulings else ""
    if not many:
        sentence = sentence_of(rulings[0])
    if failures:
        sentence = " ".join([sentence, *failures[:3]]).strip()
    if not is_fragment(request):
        messages.success(request, sentence, extra_tags="warn" if failures else "good")
        return redirect(address(filters, following))
    turns = [ruling.turn_id for ruling in rulings if ruling.turn_id]
    rows = [] if many else list(Hint.objects.select_related("turn__session__user", "decided_by").filter(turn__in=turns))
    toast = {"sentence": sentence, "ruling": rulings[-1] if rulings else None, "tone": "warn" if failures else ""}
    found = desk.found(following.pk) if following else None
    context = parts(filters, found, rows=rows, whole_queue=many, toast=toast)
    return render(request, "console/_hint_parts.html", context | {"last": reviews.last(person(request))})


def refused(request: HttpRequest, filters: Filters, pk: int | None, failure: TalkbackError) -> HttpResponse:
    """The same hint as it stands now, why nothing was done, and what was typed, still there."""
    found = desk.found(pk) if pk else None
    if not is_fragment(request) and found is None:
        messages.error(request, str(failure), extra_tags="bad")
        return redirect(address(filters))
    typed = {name: request.POST[name] for name in ("text", "reason") if request.POST.get(name)}
    context: Parts = {"fault": str(failure), "typed": typed, "was_edit": "text" in request.POST}
    if not is_fragment(request):
        listed = desk.listed(filters)
        page = {**listed, **desk.counts(filters), **policies(), **detail(found), **context}
        return render(request, "console/hints.html", page, status=failure.status)
    parted = parts(filters, found, rows=[found] if found else [], stays=True, **context)
    return render(request, "console/_hint_parts.html", parted, status=failure.status)


def gone(request: HttpRequest, filters: Filters, pk: int) -> HttpResponse:
    """The hint was deleted with its conversation while it was on the desk."""
    fault = "This hint is gone: its conversation was deleted meanwhile."
    if not is_fragment(request):
        messages.error(request, fault, extra_tags="bad")
        return redirect(address(filters))
    return render(request, "console/_hint_parts.html", parts(filters, None, fault=fault, gone=pk), status=404)


def candidates(hint: Hint, search: str) -> Parts:
    """Which hints this one could be merged into: those that ask for the same, then those in much the same words;
    or, if the reviewer searches, those with these words. Only the same person's: what one asks for is not the
    other's."""
    chosen = desk.mergeable(hint, search)
    twins = [other for other in chosen if likeness.of_a_kind(hint.text, other.text)] if not search else []
    if not search:
        shared = {other.pk: fuzz.token_set_ratio(hint.text, other.text) for other in chosen}
        chosen = sorted(chosen, key=lambda other: (other not in twins, -shared[other.pk]))
    return {"hint": hint, "likely": search, "targets": chosen[:TARGETS], "twins": twins[:2]}


def policies(typed: Any = None) -> Parts:
    """For each source, what is accepted by itself, and who said so."""
    rows = {row.source: row for row in Acceptance.objects.select_related("changed_by")}
    told = []
    for source, words in desk.SOURCES.items():
        above = rows[source].above if source in rows else reviews.DEFAULTS.get(source)
        field = "" if above is None else f"{100 * above:g}"
        told.append((source, words, typed.get(source, field) if typed else field, rows.get(source)))
    return {"policies": told}


def threshold_of(request: HttpRequest, source: str) -> float | None:
    """The share that the form names, as a part of one; None: always waits."""
    typed = request.POST.get(source, "").strip().removesuffix("%").strip().replace(",", ".")
    if not typed:
        return None
    try:
        percent = float(typed)
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        raise Unsaid(f"{source}: “{typed[:20]}” is no share of votes. Write 0 to 100, or leave it empty to wait.")
    return percent / 100


def sentence_of(ruling: Ruling) -> str:
    """What was done, shortly, for the person who did it."""
    done = DONE[Ruling.Verb(ruling.verb)]
    text = " ".join(ruling.hint.text.split()) if ruling.hint else ""
    return f"{done}: “{text if len(text) <= 70 else text[:69] + '…'}”" if text else f"{done}."


def is_fragment(request: HttpRequest) -> bool:
    """True where htmx asks for a part of the page, and not for the page of a link it follows."""
    headers = request.headers
    return "HX-Request" in headers and "HX-Boosted" not in headers and "HX-History-Restore-Request" not in headers


def back(request: HttpRequest) -> Filters:
    """The list that this form was sent from."""
    return Filters.of(QueryDict(request.POST.get("back", "")))


def address(filters: Filters, hint: Hint | None = None) -> str:
    base = reverse("console:hint", args=[hint.pk]) if hint else reverse("console:hints")
    return f"{base}?{filters.query}" if filters.query else base


def numbered(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None
