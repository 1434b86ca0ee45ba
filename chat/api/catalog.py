"""List the models that answer, and find the checkpoint that a request names: the live one, or one by number."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Router

from chat.api.access import Bearer, key_of
from chat.api.answer_shapes import Model, Models
from chat.api_keys import ApiKey
from chat.pictures import sight
from chat.rendering.renderer import Renderer
from checkpoints.models import Checkpoint
from core.errors import TalkbackError


class ModelNotFound(TalkbackError):
    """The request names a model that does not answer this key."""

    code, status = "model_not_found", 404


router = Router(auth=Bearer(scope=None), tags=["models"])

BASE = "base"
"""The model as it came, by a name that can be read: talkback@base."""


def choose_checkpoint(model: str, key: ApiKey) -> Checkpoint:
    """The checkpoint a request asks for: by the plain name the one that its key is pinned to, else the live one of its
    person's line; by name@number (or name@base, number 0) another that may answer them. A pinned key has no other.
    Raises ModelNotFound."""
    name, _, number = model.partition("@")
    if name in ("", settings.MODEL_NAME) and not number:
        return key.checkpoint or Checkpoint.for_user(key.user_id)
    if key.checkpoint and model == str(key.checkpoint):  # an exam's candidate answers no other key
        return key.checkpoint
    number = "0" if number == BASE else number
    numbered = name == settings.MODEL_NAME and re.fullmatch("[0-9]{1,9}", number)
    found = list_checkpoints(key.user).filter(number=int(number)).first() if numbered else None
    if found is not None and key.checkpoint and found != key.checkpoint:
        raise ModelNotFound(f"This API key is answered by {key.checkpoint} alone: ask for {settings.MODEL_NAME!r}.")
    if found is not None:
        return found
    raise ModelNotFound(f"There is no model {shorten(model)!r} here. GET /v1/models lists those that answer.")


def shorten(name: str) -> str:
    return name if len(name) <= 100 else name[:100] + "…"


def list_checkpoints(user: User) -> QuerySet[Checkpoint]:
    """What may answer this person: the shared line's checkpoints and those of their own."""
    status = Checkpoint.Status
    return Checkpoint.objects.visible_to(user).filter(status__in=(status.LIVE, status.RETIRED))


def list_names(key: ApiKey) -> dict[str, Checkpoint]:
    """Every name that may be asked for, and who answers to it."""
    offered = list_checkpoints(key.user)
    if key.checkpoint_id:
        offered = offered.filter(pk=key.checkpoint_id)
    numbered = {str(checkpoint): checkpoint for checkpoint in offered}
    base = {f"{settings.MODEL_NAME}@{BASE}": found for found in numbered.values() if found.number == 0}
    return {settings.MODEL_NAME: choose_checkpoint("", key), **numbered, **base}


def describe_model(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """A model in OpenAI's words and in Anthropic's, whose clients ask at the same path."""
    window = Renderer.for_model(settings.MODEL).context_length
    return {
        "id": name,
        "object": "model",
        "created": int(checkpoint.created_at.timestamp()),
        "owned_by": settings.MODEL_NAME,
        "root": str(checkpoint),
        "context_window": window,
        "max_model_len": window,
        "input_modalities": ["text"] if sight.why_blind() else ["text", "image"],
        "type": "model",
        "display_name": name if name == str(checkpoint) else f"{name} ({checkpoint})",
        "created_at": checkpoint.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": window,
        "max_tokens": window,
    }


@router.get("/models", summary="The models that answer", response=Models)
async def models(request: HttpRequest) -> dict[str, Any]:
    """The live policy of the caller's line by its plain name, every checkpoint that may be asked for by number, and
    the base."""

    def listed() -> list[dict[str, Any]]:
        return [describe_model(name, checkpoint) for name, checkpoint in list_names(key_of(request)).items()]

    data = await sync_to_async(listed)()
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"],
        "last_id": data[-1]["id"],
        "has_more": False,
    }


@router.get("/models/{path:name}", summary="One model", response=Model)
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    """The same of one name; 404 where no model has that name."""

    def found() -> dict[str, Any]:
        return describe_model(name, choose_checkpoint(name, key_of(request)))

    return await sync_to_async(found)()
