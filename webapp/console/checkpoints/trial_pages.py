"""Start and end a checkpoint's trial."""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from checkpoints import trials
from checkpoints.models import Checkpoint, Trial
from evaluation import arms
from webapp.console.checkpoints.tried import SAID
from webapp.console.doors import needs, person, said_aloud


@needs("checkpoints")
@require_POST
def start(request: HttpRequest, number: int) -> HttpResponse:
    """Load it beside the live one, prove it, and have it answer its share of the sessions."""
    checkpoint = get_object_or_404(Checkpoint, number=number)
    asked = request.POST.get("share", "").strip()
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 4):
        said = _("Say with how many per cent of the sessions: 0 is reviewers only.")
        messages.error(request, said, extra_tags="bad")
        return redirect("console:checkpoint", number=number)
    by, reason = person(request), request.POST.get("reason", "").strip()
    begin = async_to_sync(trials.start)
    if trial := said_aloud(request, lambda: begin(checkpoint, share=int(asked), by=by, reason=reason)):
        told = _("%(checkpoint)s is being tried: %(extent)s, from the next reply on.")
        told %= {"checkpoint": checkpoint, "extent": trials.extent(trial)}
        messages.success(request, told, extra_tags="good")
    return redirect("console:checkpoint", number=number)


@needs("checkpoints")
@require_POST
def end(request: HttpRequest, number: int) -> HttpResponse:
    """Have the live checkpoint answer every session again. With reviewers only the person says how it ended."""
    trial = get_object_or_404(
        Trial.objects.select_related("checkpoint", "against"), checkpoint__number=number, ended_at=None
    )
    said = request.POST.get("outcome", "")
    outcome = said if not trial.share and said in SAID else Trial.Outcome.STOPPED
    reason, evidence = request.POST.get("reason", "").strip(), arms.standing(trial).evidence
    if trials.end(trial, outcome=outcome, by=person(request), reason=reason, evidence=evidence):
        told = _("The trial has ended: %(checkpoint)s writes every new reply.") % {"checkpoint": trial.against}
        messages.success(request, told, extra_tags="good")
    return redirect("console:checkpoint", number=number)


urls = [
    path("checkpoints/<row:number>/trial/", start, name="start_trial"),
    path("checkpoints/<row:number>/trial/end/", end, name="end_trial"),
]
