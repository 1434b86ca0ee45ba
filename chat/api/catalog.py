"""The models that answer: the live policy by its plain name, checkpoints by number."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Router

from chat.api.access import Bearer
from core.errors import TalkbackError
from training.models import Checkpoint


class ModelNotFound(TalkbackError):
    code, status = "model_not_found", 404


router = Router(auth=Bearer(), tags=["models"])


def chosen(model: str) -> Checkpoint:
    """The checkpoint a request asks for: the live one by the plain name, another that may answer by name@number."""
    name, _, number = model.partition("@")
    if name in ("", settings.MODEL_NAME) and not number:
        return Checkpoint.live()
    numbered = name == settings.MODEL_NAME and number.isdecimal() and len(number) < 10
    found = answering().filter(number=int(number)).first() if numbered else None
    if found is not None:
        return found
    raise ModelNotFound(f"There is no model {model!r} here. GET /v1/models lists those that answer.")


def answering() -> QuerySet[Checkpoint]:
    return Checkpoint.objects.filter(status__in=(Checkpoint.Status.LIVE, Checkpoint.Status.RETIRED))


def described(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    created = int(checkpoint.created_at.timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": settings.MODEL_NAME, "root": str(checkpoint)}


@router.get("/models", summary="The models that answer")
async def models(request: HttpRequest) -> dict[str, Any]:
    """The live policy by its plain name, then every checkpoint that may be asked for by number."""
    live = await sync_to_async(Checkpoint.live)()
    named = [described(str(checkpoint), checkpoint) async for checkpoint in answering()]
    return {"object": "list", "data": [described(settings.MODEL_NAME, live), *named]}


@router.get("/models/{name}", summary="One model")
async def model(request: HttpRequest, name: str) -> dict[str, Any]:
    return described(name, await sync_to_async(chosen)(name))
