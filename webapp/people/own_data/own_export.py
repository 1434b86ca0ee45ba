"""Send a person all that is kept of them, as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import orjson
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts import deeds, roles
from accounts.languages import chosen_by
from accounts.models import Deed
from chat.composing.defaults import ChatDefaults
from chat.composing.prompts import SavedPrompt
from chat.models import Session
from checkpoints.models import SHARED, Line, Member
from core.textfiles import escape_separators
from evaluation.models import BlindChoice, Shadow
from feedback.models import Feedback
from gate.models import AskedAgain
from judge.models import Hint
from privacy import consent
from webapp.console.doors import person
from webapp.serving import streams

CHUNK = 20
"""How many rows the export reads at once; each may hold a whole conversation."""


PART = 20
"""How many it sends at once."""


@require_GET
@login_required
@never_cache
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Everything this person said and gave, one JSON object a line."""
    deeds.note("export", "own data downloaded", request=request, whom=person(request))
    response = StreamingHttpResponse(lines(person(request)), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="talkback-{timezone.now():%Y-%m-%d}.jsonl"'
    return response


async def lines(user: User) -> AsyncIterator[bytes]:
    """The export, a few rows at a time: a program's conversations may be longer than memory."""
    encoded = (
        escape_separators(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE, default=str).decode()).encode()
        for row in exported(user)
    )
    async for part in streams.parts(encoded, PART):
        yield b"".join(part)


def exported(user: User) -> Iterator[dict[str, Any]]:
    """Conversations, each followed by its replies with what was said of them and what became of them."""
    yield {
        "object": "account",
        "user": user.get_username(),
        "email": user.email,
        "role": roles.kept_role(user),
        "language": chosen_by(user) or None,
        "learns_by_default": consent.by_default(user),
        "line": Line.of(user),
        "teaches_the_shared_line": Line.of(user) == SHARED or Member.objects.filter(user=user, pools=True).exists(),
        "exported_at": at(timezone.now()),
    }
    usual = ChatDefaults.of(user)
    if usual.pk:
        yield {"object": "new_chats", "instructions": usual.instructions, "sampling": usual.sampling}
    for prompt in SavedPrompt.objects.filter(user=user):
        yield {"object": "prompt", "name": prompt.name, "text": prompt.text, "is_shared": prompt.is_shared}
    for one in streams.by_key(Session.objects.visible_to(user).order_by("created_at"), CHUNK):
        yield {
            "object": "session",
            "id": str(one.pk),
            "title": one.title,
            "learns": one.learns,
            "created_at": at(one.created_at),
            "key": one.key_id,
            "instructions": one.instructions,
            "sampling": one.sampling,
        }
        for turn in streams.by_key(one.turns.select_related("checkpoint").order_by("position"), CHUNK):
            yield {
                "object": "turn",
                "id": turn.completion_id,
                "session": str(one.pk),
                "created_at": at(turn.created_at),
                "line": turn.line,
                "learns": turn.learns,
                "model": str(turn.checkpoint),
                "messages": turn.messages,
                "reply": turn.message or {"role": "assistant", "content": turn.text},
            }
        for given in Feedback.objects.filter(turn__session=one).select_related("turn").order_by("pk"):
            yield {
                "object": "feedback",
                "turn": given.turn.completion_id,
                "kind": given.kind,
                "value": given.value,
                "text": given.text,
                "wish": given.wish,
                "tags": given.tags,
                "spans": given.spans,
                "created_at": at(given.created_at),
                "withdrawn_at": at(given.withdrawn_at),
            }
        for hint in Hint.objects.filter(turn__session=one).select_related("turn").order_by("pk"):
            yield {
                "object": "hint",
                "turn": hint.turn.completion_id,
                "status": hint.status,
                "source": hint.source,
                "text": hint.text,
                "created_at": at(hint.created_at),
            }
        beside = Shadow.objects.filter(turn__session=one).select_related("turn", "checkpoint")
        for shadow in streams.by_key(beside.order_by("pk"), CHUNK):
            yield {
                "object": "shadow",
                "turn": shadow.turn.completion_id,
                "model": str(shadow.checkpoint),
                "text": shadow.text,
                "finish_reason": shadow.finish_reason,
                "figures": shadow.figures,
                "created_at": at(shadow.at),
            }
        again = AskedAgain.objects.filter(turn__session=one).select_related("turn", "examination__checkpoint")
        for asked in streams.by_key(again.order_by("pk"), CHUNK):
            yield {
                "object": "asked_again",
                "turn": asked.turn.completion_id,
                "model": str(asked.examination.checkpoint),
                "before": asked.live,
                "text": asked.candidate,
                "created_at": at(asked.at),
            }
        chosen = BlindChoice.objects.filter(by=user, shadow__turn__session=one).select_related("shadow__turn")
        for choice in chosen.order_by("pk"):
            yield {
                "object": "blind_choice",
                "turn": choice.shadow.turn.completion_id,
                "picked": choice.picked,
                "created_at": at(choice.at),
            }
    for device in user.devices.all():
        yield {
            "object": "device",
            "browser": device.browser,
            "address": device.address,
            "signed_in_at": at(device.signed_in_at),
        }
    for deed in streams.by_key(Deed.objects.filter(by=user).order_by("pk"), CHUNK):
        yield {
            "object": "deed",
            "verb": deed.verb,
            "about": deed.about,
            "address": deed.address,
            "outcome": deed.outcome,
            "created_at": at(deed.at),
        }


def at(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
