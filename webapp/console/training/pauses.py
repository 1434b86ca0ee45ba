"""Pause and resume training."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_POST

from training import hours
from training.hours import HoursInvalid
from training.models import Pause
from webapp.console.doors import needs, person, said_aloud


@needs("training")
@require_POST
def pause(request: HttpRequest) -> HttpResponse:
    def hold() -> Pause:
        until = after(request.POST.get("hours", ""))
        return hours.pause(by=person(request), reason=request.POST.get("reason", "").strip(), until=until)

    if said_aloud(request, hold):
        messages.success(request, "Training is paused. A run that has started finishes.", extra_tags="good")
    return redirect("console:board")


@needs("training")
@require_POST
def resume(request: HttpRequest) -> HttpResponse:
    if hours.resume():
        messages.success(request, "Training resumed: what is due starts within a minute.", extra_tags="good")
    else:
        messages.info(request, "Training was not paused.")
    return redirect("console:board")


def after(said: str) -> datetime | None:
    """The time so many hours from now; None where nothing was said. Raises HoursInvalid."""
    if not said.strip():
        return None
    try:
        return timezone.now() + timedelta(hours=float(said.strip().replace(",", ".")))
    except (ValueError, OverflowError) as error:
        raise HoursInvalid(f"{said.strip()!r} is no number of hours.") from error


urls = [path("pause/", pause, name="pause"), path("resume/", resume, name="resume")]
