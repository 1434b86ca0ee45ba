"""Feedback through the API: what was said of a completion, by its id, without a new turn."""

from __future__ import annotations

from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpRequest
from ninja import Router
from pydantic import BaseModel, Field, model_validator

from chat.api.access import Bearer
from chat.api.wire import storable
from chat.models import Turn
from core.errors import TalkbackError
from feedback.forms import LONGEST
from feedback.models import Feedback


class CompletionNotFound(TalkbackError):
    """No such completion, or not this key's to speak of."""

    code, status = "completion_not_found", 404


class Saying(BaseModel):
    """What is left out stays as it stands; null (or "none", or an empty text) takes it back."""

    completion_id: str
    thumb: Literal["up", "down", "none"] | None = None
    correction: str | None = Field(None, max_length=LONGEST)
    """What the reply should have said."""
    guidance: str | None = Field(None, max_length=LONGEST)
    """What to do next time; the hint, word for word."""

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, body: Any) -> Any:
        return storable(body)

    @model_validator(mode="after")
    def _says_something(self) -> Saying:
        if not self.model_fields_set & {"thumb", "correction", "guidance"}:
            raise ValueError("give a thumb, a correction or a guidance")
        return self

    def spoken(self) -> dict[str, tuple[int, str]]:
        """Kind to value and text, for what this request speaks of."""
        given = self.model_fields_set
        said: dict[str, tuple[int, str]] = {}
        if "thumb" in given:
            said[Feedback.Kind.THUMB] = ({"up": 1, "down": -1}.get(self.thumb or "", 0), "")
        if "correction" in given:
            said[Feedback.Kind.REWRITE] = (0, (self.correction or "").strip())
        if "guidance" in given:
            said[Feedback.Kind.GUIDANCE] = (0, (self.guidance or "").strip())
        return said


router = Router(auth=Bearer(), tags=["feedback"])


@router.post("/feedback", summary="A thumb, a correction or guidance on one completion")
async def give(request: HttpRequest, body: Saying) -> dict[str, Any]:
    """Sending the same again changes nothing. The answer says what stands now."""
    return await sync_to_async(said)(request.auth.user, body)  # type: ignore[attr-defined]


@transaction.atomic
def said(user: Any, body: Saying) -> dict[str, Any]:
    turn = Turn.objects.visible_to(user).filter(completion_id=body.completion_id).first()
    if turn is None:
        raise CompletionNotFound(f"There is no completion {body.completion_id!r} that this key may speak of.")
    for kind, (value, text) in body.spoken().items():
        if value or text:
            Feedback.objects.give(turn, by=user, kind=kind, value=value, text=text)
        else:
            Feedback.objects.withdraw(turn, by=user, kind=kind)
    stands = {row.kind: row for row in Feedback.objects.standing().filter(turn=turn, by=user)}
    thumb, rewrite, guidance = (stands.get(kind) for kind in ("thumb", "rewrite", "guidance"))
    return {
        "object": "feedback",
        "completion_id": turn.completion_id,
        "thumb": {1: "up", -1: "down"}[thumb.value] if thumb else None,
        "correction": rewrite.text if rewrite else None,
        "guidance": guidance.text if guidance else None,
    }
