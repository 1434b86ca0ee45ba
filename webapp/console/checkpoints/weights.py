"""A checkpoint's files for other tools: a button for each, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import Checkpoint
from evaluation import exports, weight_files
from evaluation.models import Export
from webapp.console.doors import needs, person, said_aloud

LISTED = 4
"""How many of a checkpoint's exports its page shows, the newest."""


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """What can be written of it, how large that is, and what was."""
    if not weight_files.may(checkpoint):
        return None
    made = list(checkpoint.exports.select_related("by")[:LISTED]) if getattr(checkpoint, "is_exported", True) else []
    alive = {row.what for row in made if row.status in (Export.Status.QUEUED, Export.Status.WRITING)}
    return {
        "checkpoint": checkpoint,
        "made": made,
        "is_moving": bool(alive),
        "alive": alive,
        "bytes": weight_files.size(),
        "kept_days": exports.KEPT.days,
    }


@needs("checkpoints")
@require_POST
def ask(request: HttpRequest, number: int) -> HttpResponse:
    """Have one of these files written."""
    checkpoint, by = get_object_or_404(Checkpoint, number=number), person(request)
    said_aloud(request, lambda: weight_files.ask(checkpoint, request.POST.get("what", ""), by=by))
    return redirect(f"{reverse('console:checkpoint', args=[number])}#files")


@needs("checkpoints")
@require_GET
def files(request: HttpRequest, number: int) -> HttpResponse:
    """The card alone, while something is being written."""
    checkpoint = get_object_or_404(Checkpoint, number=number)
    return render(request, "checkpoints/_files.html", {"panel": panel(checkpoint, person(request))})


urls = [
    path("checkpoints/<row:number>/files/", ask, name="checkpoint_files"),
    path("checkpoints/<row:number>/files/now/", files, name="checkpoint_files_now"),
]
