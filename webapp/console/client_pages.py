"""Show how requests are sorted into main and side turns, by which rule, and let a person overrule it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from chat import clients, resorting
from chat.clients import files, sorting
from chat.clients.rules import Rules, RulesInvalid, read
from chat.clients.sorting import Seen, Sorted
from chat.models import Turn
from chat.operator_rules import ClientRules
from chat.turns import LONG
from webapp.console.doors import needs, person, said_aloud

LATELY = timedelta(days=7)
SHOWN = 40
"""How many of the newest turns the page lists."""
TRIED = 100
"""On how many of the newest turns rules are tried."""

EXAMPLE = """# Which requests this is about: any of these. Leave them out, and it is every request.
title = "My agent"

[[known]]
where = "header:user-agent"
starts = "my-agent/"

# What names the conversation: a header, a field, or a part of the text.
[[session]]
name = "task"
where = "header:x-task-id"

# What is no main line, and never teaches.
[[side]]
name = "summary"
where = "system"
starts = "You write summaries"
"""


@dataclass(frozen=True)
class Client:
    """One rule file as the page lists it."""

    rules: Rules
    own: ClientRules | None
    is_shipped: bool
    counts: list[tuple[str, int]]
    """Its rules that sorted something lately, with how many turns each, the busiest first."""


@dataclass(frozen=True)
class Tried:
    """One past turn under the rules as they stand, and as they would be."""

    turn: Turn
    now: Sorted
    then: Sorted


@needs("clients")
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    rule = request.GET.get("rule", "")
    listed = first_of(newest().filter(rule=rule) if rule else newest(), SHOWN)
    context = {"clients": every(), "rule": rule, "turns": list(listed)}
    return render(request, "system/clients.html", context)


@needs("clients")
@require_GET
def new(request: HttpRequest) -> HttpResponse:
    return editor(request, "", EXAMPLE)


@needs("clients")
@require_GET
def edit(request: HttpRequest, name: str) -> HttpResponse:
    own = ClientRules.objects.filter(name=name).first()
    if own is None and name not in files.read_shipped():
        return redirect("console:clients")
    return editor(request, name, own.source if own else files.source_of(name), own=own)


@needs("clients")
@require_POST
def attempt(request: HttpRequest) -> HttpResponse:
    """What would change for past turns, before anything is saved."""
    try:
        rules = read(*written(request))
    except RulesInvalid as error:
        return render(request, "system/_rules_tried.html", {"error": str(error)}, status=422)
    return render(request, "system/_rules_tried.html", trial(rules))


@needs("clients")
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Keep the rules, if they can be read: the next request is sorted by them."""
    name, source = written(request)
    try:
        read(name, source)
    except RulesInvalid as error:
        known = ClientRules.objects.filter(name=name).first() if request.POST.get("known") else None
        return editor(
            request, name if request.POST.get("known") else "", source, own=known, error=str(error), named=name
        )
    before = ClientRules.objects.filter(name=name).first()
    keep(request, name, source)
    remember(request, name, before.source if before else None)
    said = _("%(name)s is saved: requests are sorted by it from now on.") % {"name": name}
    messages.success(request, said, extra_tags="good")
    return redirect("console:client", name=name)


@needs("clients")
@require_POST
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Take back an operator's own file; where one is shipped under that name, it stands again."""
    own = get_object_or_404(ClientRules, name=name)
    remember(request, name, own.source)
    own.delete()
    files.forget()
    said = _("%(name)s is deleted.")
    if name in files.read_shipped():
        said = _("%(name)s is deleted. The file that comes with Talkback stands again.")
    messages.success(request, said % {"name": name}, extra_tags="good")
    return redirect("console:clients")


@needs("clients")
@require_POST
def undo(request: HttpRequest, name: str) -> HttpResponse:
    """Put back what stood before this person's last change."""
    past = request.session.get("rules_before", {})
    if name not in past:
        said = _("There is no change of %(name)s to take back.") % {"name": name}
        messages.error(request, said, extra_tags="bad")
        return redirect("console:clients")
    before, held = past[name], ClientRules.objects.filter(name=name).first()
    if before is None:
        ClientRules.objects.filter(name=name).delete()
        files.forget()
    else:
        keep(request, name, before)
    remember(request, name, held.source if held else None)
    messages.success(request, _("%(name)s is as it was before.") % {"name": name}, extra_tags="good")
    return redirect("console:clients")


@needs("clients")
@require_POST
def resort(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A person's word on one turn: main line or side."""
    turn = get_object_or_404(Turn.objects.select_related("session"), pk=pk)
    line = request.POST.get("line", "")
    if line not in Turn.Line.values:
        return HttpResponse(_("Say main or side."), status=400, content_type="text/plain")
    changed = said_aloud(request, lambda: resorting.resort(turn, line, by=person(request)))
    if request.headers.get("HX-Request") and changed is not None:
        return render(request, "system/_sorted_turn.html", {"turn": newest().get(pk=pk)})
    back = reverse("console:turn", args=[pk]) if request.POST.get("back") == "turn" else reverse("console:clients")
    if request.headers.get("HX-Request"):  # the sentence is on the page that comes next
        return HttpResponse(headers={"HX-Redirect": back})
    return redirect(back)


urls = [
    path("clients/", overview, name="clients"),
    path("clients/new/", new, name="client_new"),
    path("clients/try/", attempt, name="client_try"),
    path("clients/save/", save, name="client_save"),
    path("clients/<slug:name>/", edit, name="client"),
    path("clients/<slug:name>/delete/", delete, name="client_delete"),
    path("clients/<slug:name>/undo/", undo, name="client_undo"),
    path("turns/<uuid:pk>/sort/", resort, name="resort"),
]


def editor(
    request: HttpRequest, name: str, source: str, *, own: ClientRules | None = None, error: str = "", named: str = ""
) -> HttpResponse:
    context = {
        "name": name,
        "named": named or name,
        "source": source,
        "own": own,
        "is_shipped": name in files.read_shipped(),
        "can_undo": name in request.session.get("rules_before", {}),
        "error": error,
    }
    return render(request, "system/client.html", context, status=422 if error else 200)


def written(request: HttpRequest) -> tuple[str, str]:
    """The name and the text in the form; browsers send line ends of their own."""
    return request.POST.get("name", "").strip(), request.POST.get("source", "").replace("\r\n", "\n").replace(
        "\x00", ""
    )


def keep(request: HttpRequest, name: str, source: str) -> None:
    said = {"source": source, "changed_at": timezone.now(), "changed_by": person(request)}
    ClientRules.objects.update_or_create(name=name, defaults=said)
    files.forget()


def remember(request: HttpRequest, name: str, source: str | None) -> None:
    """What to put back should this person change their mind; None: nothing stood."""
    request.session["rules_before"] = {name: source}


def newest():  # type: ignore[no-untyped-def]
    """Turns that rules sorted, the newest first."""
    long = set(LONG) - {"messages"}
    return Turn.objects.exclude(rule="").select_related("session", "sorted_by").defer(*long).order_by("-created_at")


def first_of(listed: QuerySet[Turn], number: int) -> QuerySet[Turn]:
    """The first of these: all keys are put in order out of an index, and the rows of so many are read."""
    keys = listed.select_related(None).values("pk")[:number]
    return newest().filter(pk__in=keys)


def every() -> list[Client]:
    """The rule files in the order in which they are asked."""
    own = {rules.name: rules for rules in ClientRules.objects.select_related("changed_by")}
    lately = Turn.objects.filter(created_at__gte=timezone.now() - LATELY).exclude(rule="")
    counts: dict[str, list[tuple[str, int]]] = {}
    for rule, count in lately.order_by().values_list("rule").annotate(n=Count("pk")).order_by("-n"):
        client, _, _ = rule.partition("/")
        counts.setdefault(client, []).append((rule, count))
    return [
        Client(rules, own.get(rules.client), rules.client in files.read_shipped(), counts.get(rules.client, []))
        for rules in files.current()
    ]


def trial(rules: Rules) -> dict[str, object]:
    """How the newest turns are sorted now, and how they would be with these rules."""
    standing = files.current()
    own = files.read_own(dict(ClientRules.objects.values_list("name", "source")))
    would = files.stack(own | {rules.client: rules})
    tried = []
    for turn in first_of(newest(), TRIED):
        seen = Seen.again(turn)
        tried.append(Tried(turn, sorting.sort_by(standing, seen), sorting.sort_by(would, seen)))
    changed = [one for one in tried if one.now != one.then]
    return {
        "tried": ngettext("%(n)s turn", "%(n)s turns", len(tried)) % {"n": len(tried)},
        "changed": changed,
        "lines": sum(one.now.is_main != one.then.is_main for one in changed),
        "known": sum(one.then.client == rules.client for one in tried),
        "headers": sorted(rules.headers - clients.headers()),
    }
