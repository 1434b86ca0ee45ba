"""Show one attempt, played back step by step."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET

from chat.models import Turn
from feedback.models import Feedback
from webapp.console.doors import for_signed_in, person
from webapp.console.worlds import costs, endings, playback, sights, task_names, worth
from webapp.console.worlds.group_page import Cell, of_step

YES = {True: gettext_lazy("yes"), False: gettext_lazy("no")}


@for_signed_in
@require_GET
def episode(request: HttpRequest, pk: UUID) -> HttpResponse:
    user = person(request)
    rows = sights.episodes(user).select_related("group__checkpoint", "group__user", "session")
    shown = get_object_or_404(rows, pk=pk)
    peers = list(shown.group.episodes.order_by("attempt"))
    found = worth.of(shown.group, peers)
    steps = playback.steps([shown], user)[shown.pk]
    is_own = shown.group.user_id == user.pk
    cells = [Cell(step, of_step(shown, step, found), shown.pk) for step in steps]
    _know_opinions([step.turn for step in steps] if is_own else [], user)
    context = {
        "episode": shown,
        "group": shown.group,
        "names": task_names.names([shown.group.task], user),
        "cost": costs.in_words(shown.cost),
        "is_own": is_own,
        "cells": cells,
        "why": endings.why(shown, len(steps)),
        "ending": endings.WORDS[shown.ending],
        "tone": endings.TONES.get(shown.ending, ""),
        "worst": _worst(cells) if shown.ending in endings.LOST else None,
        "worth": found,
        "left_out": worth.why_not(shown),
        "checks": [(name, YES[value] if isinstance(value, bool) else value) for name, value in shown.checks.items()],
        "before": next((one for one in reversed(peers) if one.attempt < shown.attempt), None),
        "after": next((one for one in peers if one.attempt > shown.attempt), None),
        "is_hidden": any(step.is_hidden for step in steps),
    }
    return render(request, "worlds/episode.html", context)


def _worst(cells: Sequence[Cell]) -> Cell | None:
    """The first of the steps with the lowest score, where that is below 0."""
    bad = [cell for cell in cells if (cell.worth.score or 0) < 0]
    return min(bad, key=lambda cell: cell.worth.score or 0, default=None)


def _know_opinions(turns: list[Turn], user: User) -> None:
    """Have each turn know the thumb that this person gave it. One query."""
    thumbs = Feedback.objects.filter(turn__in=turns, by=user, kind=Feedback.Kind.THUMB, withdrawn_at=None)
    said = {thumb.turn_id: {"thumb": thumb} for thumb in thumbs} if turns else {}
    for turn in turns:
        turn.opinions = said.get(turn.pk, {})  # type: ignore[attr-defined]  # hung on for the page
