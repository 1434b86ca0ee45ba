"""Show notices of what happened without an operator: a banner on every page, and the list."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from checkpoints import notices
from checkpoints.models import Checkpoint
from checkpoints.notice_rows import Notice
from checkpoints.promotion import Answering
from webapp.console.doors import needs, person
from webapp.console.review.desk import is_fragment
from webapp.notifications import events
from webapp.notifications.models import Event, wanted_by

SHOWN = 3
"""How many stand on every page; the rest are one click away."""

HISTORY = 100
"""How many of those that were read are listed."""


def banner(*, names_waiting: bool = True, known: Answering | None = None) -> dict[str, Any]:
    """What every page says first: candidates that wait for a person, as far as they are not `known` already, and what
    is still unread."""
    unread = list(notices.unread())
    shown = unread[:SHOWN]
    waiting = known.waiting if known is not None else notices.waiting()
    return {
        "waiting": list(waiting) if names_waiting else [],
        "notices": shown,
        "more": len(unread) - len(shown),
    }


@needs("checkpoints")
@require_GET
def waiting(request: HttpRequest) -> HttpResponse:
    """What this person wants to hear of in the browser, as the page's script asks for it."""
    wanted = wanted_by(person(request), "browser")
    candidates = notices.waiting() if Event.CANDIDATE in wanted else Checkpoint.objects.none()
    found = [
        {
            "tag": str(one),
            "title": _("%(who)s waits for you") % {"who": one},
            "body": _("Your model has learned and passed the gate. Have a look."),
            "url": reverse("console:checkpoint", args=[one.number]),
        }
        for one in candidates
    ]
    for one in events.news(person(request)):
        found.append({"tag": one.key, "title": str(Event(one.event).label), "body": one.text, "url": one.path})
    return JsonResponse({"news": found})


@needs("notices")
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    rows = Notice.objects.exclude(read_at=None).select_related("checkpoint", "read_by").order_by("-read_at")
    context = {"unread": notices.unread(), "history": rows[:HISTORY], "noticed": banner()}
    return render(request, "system/notices.html", context)


@needs("notices")
@require_POST
def read(request: HttpRequest, pk: int) -> HttpResponse:
    """An operator has read it: back to the page it stood on, or, by htmx, what stands there now."""
    notices.read(get_object_or_404(Notice, pk=pk), person(request))
    if is_fragment(request):
        return render(request, "console/_notices.html", {"noticed": banner()})
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "console:notices")


urls = [
    path("notices/", home, name="notices"),
    path("notices/waiting/", waiting, name="waiting"),
    path("notices/<row:pk>/read/", read, name="notice_read"),
]
