"""Take a person's word on a tool call: allow it once, always in this chat, or refuse."""

from __future__ import annotations

import asyncio

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from chat.models import Session, Turn
from chat.replying import live_replies
from chat.tools import rounds
from chat.tools.calls import ToolCall
from core.htmx import is_htmx
from gpu_workers import engines

WORDS = ("once", "always", "refuse")


@require_POST
@login_required
async def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """What is decided already stays so: a second word changes nothing."""
    user = await request.auser()
    own = ToolCall.objects.filter(turn__in=Turn.objects.visible_to(user)).select_related("turn__session")
    call = await sync_to_async(get_object_or_404)(own, pk=pk)
    word = request.POST.get("word", "")
    if word not in WORDS:
        return HttpResponseBadRequest("A call is allowed once, always, or refused.")

    async def decided() -> None:
        lease = await sync_to_async(rounds.decide)(call, word)
        if lease is not None:
            rounds.start(rounds.go_on_from(call.turn, lease, engines.policy()))

    try:
        await asyncio.shield(live_replies.begin(decided()))  # a person who leaves at once has decided, too
    except Session.DoesNotExist:
        raise Http404 from None
    await live_replies.publish_calls(call.turn)
    if is_htmx(request):
        return HttpResponse(status=204)
    return redirect("chat:session", call.turn.session_id)
