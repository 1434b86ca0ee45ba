"""Show lines that learned what was taken back since, and retrain them without it."""

from __future__ import annotations

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Taint
from training.provenance import cleaning
from webapp.console.checkpoints.tainted import stands, tainted
from webapp.console.doors import needs, numbered, person, said_aloud

SHOWN = 10
"""Cleanings that are over, at most."""


@needs("checkpoints")
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """What answers with something that was taken back first; then what may again, and what was done."""
    rows = Cleaning.objects.select_related("line", "ancestor", "replaces__line", "result", "by")
    is_active = Q(status__in=cleaning.ACTIVE)
    over = Cleaning.objects.exclude(is_active).values("pk")[:SHOWN]
    shown = stands(list(rows.filter(is_active | Q(pk__in=over))))
    standing = Taint.objects.filter(cleaned_by=None).exclude(checkpoint__status=Checkpoint.Status.REJECTED)
    standing = standing.select_related("checkpoint__line", "checkpoint__run").order_by("-checkpoint__number")
    live = [tainted(one) for one in standing if one.checkpoint.status == Checkpoint.Status.LIVE]
    context = {
        "live": live,
        "others": [one for one in standing if one.checkpoint.status != Checkpoint.Status.LIVE],
        "active": [one for one in shown if one.is_active],
        "over": [one for one in shown if not one.is_active],
        "busy": {one.row.line_id for one in shown if one.is_active},
    }
    return render(request, "checkpoints/cleanings.html", context)


@needs("checkpoints")
@require_POST
def start(request: HttpRequest) -> HttpResponse:
    """Have the named checkpoint's line be learned again without what was taken back."""
    target = numbered(request.POST.get("checkpoint", ""))
    if target is None:
        return redirect("console:cleanings")
    return begin(request, target)


def begin(request: HttpRequest, target: Checkpoint) -> HttpResponse:
    """One click, from wherever it comes."""
    begun = said_aloud(request, lambda: cleaning.start(target, by=person(request)))
    if begun is not None:
        steps, removed = len(begun.steps), begun.removed
        said = _("%(checkpoint)s is learned again from %(ancestor)s on: %(steps)s, without %(samples)s.") % {
            "checkpoint": target,
            "ancestor": begun.ancestor,
            "steps": ngettext("%(n)s run", "%(n)s runs", steps) % {"n": steps},
            "samples": ngettext("%(n)s sample", "%(n)s samples", removed) % {"n": removed},
        }
        messages.success(request, said, extra_tags="good")
    return redirect("console:cleanings")


@needs("checkpoints")
@require_POST
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Cleaning, pk=pk)
    said_aloud(request, lambda: cleaning.cancel(row))
    return redirect("console:cleanings")


@needs("checkpoints")
@require_POST
def again(request: HttpRequest, pk: int) -> HttpResponse:
    """Go on with one that failed or was stopped, from the last step that is done."""
    row = get_object_or_404(Cleaning, pk=pk)
    said_aloud(request, lambda: cleaning.again(row))
    return redirect("console:cleanings")


urls = [
    path("cleanings/", index, name="cleanings"),
    path("cleanings/start/", start, name="cleaning_start"),
    path("cleanings/<row:pk>/stop/", stop, name="cleaning_stop"),
    path("cleanings/<row:pk>/again/", again, name="cleaning_again"),
]
