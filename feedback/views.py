"""Thumbs with their reasons, and corrections, given on the page."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from chat.models import Turn
from chat.turns import TurnUnfinished
from feedback.forms import FeedbackForm
from feedback.models import Feedback


@require_POST
@login_required
def give(request: HttpRequest, turn_id: UUID) -> HttpResponse:
    """Say, change or take back one thing; the bar under the reply comes back as it then stands."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session"), pk=turn_id)
    form = FeedbackForm(request.POST)
    if form.is_valid() and says_nothing_new(turn, **form.cleaned_data):
        form.add_error(None, "That is what the reply said: write what it should have said instead.")
    if form.is_valid():
        try:
            apply(turn, request, **form.cleaned_data)
        except TurnUnfinished as unfinished:
            form.add_error(None, str(unfinished))
    status = 422 if form.errors else 200
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("chat:session", turn.session_id)
    return render(request, "feedback/_bar.html", {"turn": turn, "form": form, "answered": True}, status=status)


def says_nothing_new(turn: Turn, *, kind: str, text: str, **_: object) -> bool:
    """A rewrite that is the reply itself: the box was sent as it was found."""
    return kind == Feedback.Kind.REWRITE and text == turn.text.strip()


def apply(turn: Turn, request: HttpRequest, *, kind: str, value: int, text: str, tags: list[str] | None) -> None:
    """An empty correction and a thumb of 0 take back what was said; a thumb that stands already stays."""
    by = cast(User, request.user)  # login_required saw to it
    if "take_back" in request.POST or not (value or text):
        Feedback.objects.withdraw(turn, by=by, kind=kind)
    else:
        Feedback.objects.give(turn, by=by, kind=kind, value=value, text=text, tags=tags)
