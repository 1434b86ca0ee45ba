"""Show a file that was sent with a message."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from chat import branches
from chat.models import Turn
from core.htmx import is_htmx


@require_GET
@login_required
@never_cache
def file(request: HttpRequest, pk: uuid.UUID, place: int) -> HttpResponse:
    """The file at this place among those of a turn's message: in its fold, or, without scripts, as plain text."""
    turn = get_object_or_404(Turn.objects.visible_to(request.user).defer(*branches.HEAVY), pk=pk)
    files = [one for said in branches.asked_by(turn) for one in said["files"]]
    if place >= len(files):
        raise Http404
    if not is_htmx(request):
        return HttpResponse(files[place].text, content_type="text/plain; charset=utf-8")
    return render(request, "chat/composing/_file.html", {"file": files[place]})
