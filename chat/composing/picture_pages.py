"""Show a picture that stands in a conversation, to its owner alone."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from chat.models import Turn
from chat.pictures import keeping
from chat.pictures.picture import PictureRefused, in_messages


@require_GET
@login_required
@never_cache
def picture(request: HttpRequest, pk: uuid.UUID, digest: str) -> HttpResponse:
    """The picture of this digest in the prompt of a turn, or in what came back after it, as it was sent."""
    turns = Turn.objects.visible_to(request.user).only("session_id", "messages", "next_state")
    turn = get_object_or_404(turns, pk=pk)
    held = in_messages([*turn.messages, *turn.next_state])
    kept = next((one for one in held if one["digest"] == digest), None)
    if kept is None:
        raise Http404
    try:
        data = keeping.read(turn.session_id, digest)
    except PictureRefused as gone:
        raise Http404 from gone
    headers = {"Content-Security-Policy": "default-src 'none'; sandbox", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(data, content_type=kept["type"], headers=headers)
