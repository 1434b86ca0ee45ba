"""What happened without an operator, to be read: on every page of the console, and all of it here."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from training import notices
from training.models import Notice
from webapp.console.doors import for_staff, person
from webapp.console.reviews import is_fragment

SHOWN = 3
"""How many stand on every page; the rest are one click away."""

HISTORY = 100
"""How many of those that were read are listed."""


def banner() -> dict[str, Any]:
    """What every page says first."""
    unread = list(notices.unread())
    return {"notices": unread[:SHOWN], "more": len(unread) - len(unread[:SHOWN])}


@for_staff
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    rows = Notice.objects.exclude(read_at=None).select_related("checkpoint", "read_by").order_by("-read_at")
    context = {"unread": notices.unread(), "history": rows[:HISTORY]}
    return render(request, "console/notices.html", context)


@for_staff
@require_POST
def read(request: HttpRequest, pk: int) -> HttpResponse:
    """Somebody has read it: back to the page it stood on, or, by htmx, what stands there now."""
    notices.read(get_object_or_404(Notice, pk=pk), person(request))
    if is_fragment(request):
        return render(request, "console/_notices.html", {"noticed": banner()})
    back = request.POST.get("back", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, {request.get_host()}) else "console:notices")


urls = [
    path("notices/", home, name="notices"),
    path("notices/<int:pk>/read/", read, name="notice_read"),
]
