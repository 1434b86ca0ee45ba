"""Did talking help? The same of a line, for staff: all who talk to it, counted together, without a word of theirs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path
from django.views.decorators.http import require_GET

from judge import helped
from training.models import SHARED, Line
from webapp.console.doors import for_staff
from webapp.helped import told


@for_staff
@require_GET
def line(request: HttpRequest) -> HttpResponse:
    """One line, the shared one where none is named, and the way to the others."""
    shown = get_object_or_404(Line, name=request.GET.get("line") or SHARED)
    context = told(helped.of_line(shown), "people") | {"line": shown, "lines": Line.objects.all()}
    return render(request, "console/helped.html", context)


urls = [path("helped/", line, name="helped")]
