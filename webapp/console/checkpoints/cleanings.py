"""Show lines that learned what was taken back since, and retrain them without it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import Checkpoint, Cleaning, Taint
from training.provenance import cleaning
from webapp.console.checkpoints.tainted import stand, tainted
from webapp.console.doors import needs, numbered, person, said_aloud

SHOWN = 10
"""Cleanings that are over, at most."""


@needs("checkpoints")
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """What answers with something that was taken back first; then what may again, and what was done."""
    rows = Cleaning.objects.select_related("line", "ancestor", "replaces", "result", "by")
    standing = Taint.objects.filter(cleaned_by=None).exclude(checkpoint__status=Checkpoint.Status.REJECTED)
    standing = standing.select_related("checkpoint__line", "checkpoint__run").order_by("-checkpoint__number")
    live = [tainted(one) for one in standing if one.checkpoint.status == Checkpoint.Status.LIVE]
    context = {
        "live": live,
        "others": [one for one in standing if one.checkpoint.status != Checkpoint.Status.LIVE],
        "active": [stand(row) for row in rows.filter(status__in=cleaning.ACTIVE)],
        "over": [stand(row) for row in rows.exclude(status__in=cleaning.ACTIVE)[:SHOWN]],
        "busy": set(rows.filter(status__in=cleaning.ACTIVE).values_list("line", flat=True)),
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
