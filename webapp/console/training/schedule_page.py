"""Show when training may begin; pause and resume it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from checkpoints.models import SHARED
from training import batches, hours, line_recipes
from training.hours import HoursInvalid, Rules
from training.models import Pause, Run
from webapp.console.board import waiting
from webapp.console.doors import needs, person, said_aloud


@needs("training")
@require_GET
def schedule(request: HttpRequest) -> HttpResponse:
    """The rules that say when a run may begin, what holds one back now, and a person's pause."""
    run = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).order_by("-status", "pk").first()
    held = waiting(run)
    ready = batches.filling(line_recipes.recipe_of(SHARED)).ready
    context = {
        "rules": rules(),
        "hours": settings.LEARN_HOURS,
        "zone": settings.TIME_ZONE,
        "running": run if run and run.status == Run.Status.RUNNING else None,
        "held": held.sentence(ready) if held else "",
        "pause": hours.current(),
    }
    return render(request, "training/schedule.html", context)


def rules() -> Rules | None:
    """What the settings say; None where they cannot be read: `waiting` says why."""
    try:
        return hours.rules()
    except HoursInvalid:
        return None


@needs("training")
@require_POST
def pause(request: HttpRequest) -> HttpResponse:
    def hold() -> Pause:
        until = after(request.POST.get("hours", ""))
        return hours.pause(by=person(request), reason=request.POST.get("reason", "").strip(), until=until)

    if said_aloud(request, hold):
        messages.success(request, _("Training is paused. A run that has started finishes."), extra_tags="good")
    return redirect("console:schedule")


@needs("training")
@require_POST
def resume(request: HttpRequest) -> HttpResponse:
    if hours.resume():
        messages.success(request, _("Training resumed: what is due starts within a minute."), extra_tags="good")
    else:
        messages.info(request, _("Training was not paused."))
    return redirect("console:schedule")


def after(said: str) -> datetime | None:
    """The time so many hours from now; None where nothing was said. Raises HoursInvalid."""
    if not said.strip():
        return None
    try:
        return timezone.now() + timedelta(hours=float(said.strip().replace(",", ".")))
    except (ValueError, OverflowError) as error:
        raise HoursInvalid(_("%(said)r is no number of hours.") % {"said": said.strip()}) from error


urls = [
    path("schedule/", schedule, name="schedule"),
    path("pause/", pause, name="pause"),
    path("resume/", resume, name="resume"),
]
