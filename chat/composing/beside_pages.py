"""Show replies to one prompt side by side, ask for another, keep one."""

from __future__ import annotations

import uuid

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chat import branches
from chat.composing import beside
from chat.models import Turn
from chat.tools import rounds
from core import stores
from core.htmx import is_htmx
from gpu_workers import engines

OFFERED = 20
"""How many checkpoints a reply may be compared with, the newest."""


def found(request: HttpRequest, pk: uuid.UUID) -> Turn:
    turn: Turn = get_object_or_404(Turn.objects.visible_to(request.user).select_related("session", "checkpoint"), pk=pk)
    return turn


@require_GET
@login_required
@never_cache
def choose(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """The checkpoints that a reply may be compared with: under it, or as a page of its own."""
    turn = found(request, pk)
    context = {"turn": turn, "checkpoints": beside.offered_beside(turn, request.user, OFFERED)}
    context["others"] = len(beside.tries_at(turn)) - 1
    is_panel = is_htmx(request)
    return render(request, "chat/composing/_compare.html" if is_panel else "chat/composing/compare.html", context)


@require_POST
@login_required
async def compare(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Have another checkpoint answer the same, and show both."""
    user = await request.auser()
    old = await sync_to_async(get_object_or_404)(Turn.objects.visible_to(user).select_related("session"), pk=pk)
    number = request.POST.get("checkpoint", "")
    try:
        await rounds.open_and_answer(
            lambda: beside.compare(user, old, int(number) if number.isdecimal() and len(number) < 10 else -1),
            engines.policy(),
        )
    except Exception as error:
        if (failure := stores.name_failure(error)) is None:
            raise
        return await sync_to_async(show)(request, old, trouble=str(failure), status=failure.status)
    return redirect("chat:beside", old.pk)


@require_GET
@login_required
@never_cache
def side_by_side(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """The replies to one message, those that are being written as far as they are."""
    return show(request, found(request, pk))


@require_POST
@login_required
def keep(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """Go on from this one."""
    turn = found(request, pk)
    try:
        beside.keep(turn)
    except beside.NotCompared as refused:
        return show(request, turn, trouble=str(refused), status=refused.status)
    return redirect(f"{reverse('chat:session', args=[turn.session_id])}#turn-{turn.pk}")


def show(request: HttpRequest, turn: Turn, *, trouble: str = "", status: int = 200) -> HttpResponse:
    tries = beside.tries_at(turn)
    context = {
        "turn": turn,
        "session": turn.session,
        "tries": tries,
        "asked": branches.asked_by(turn)[-1:],
        "is_writing": any(one.status == Turn.Status.ANSWERING for one in tries),
        "checkpoints": beside.offered_beside(turn, request.user, OFFERED),
        "trouble": trouble,
    }
    is_part = is_htmx(request) and not trouble
    template = "chat/composing/_beside.html" if is_part else "chat/composing/beside.html"
    return render(request, template, context, status=status)
