"""Serve sessions to the programs that hold them: describe one, close one."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from ninja import Router
from pydantic import BaseModel, Field

from chat import sessions
from chat.api.access import Bearer, check_scope, key_of
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from core.errors import TalkbackError
from gpu_workers.types import storable


class SessionNotFound(TalkbackError):
    """The key has no such session."""

    code, status = "session_not_found", 404


class Described(BaseModel):
    object: Literal["session"]
    id: str
    name: str | None = Field(description="The client's own name for it.")
    client: str | None = Field(description="The rule file that knew the client.")
    named_by: str | None = Field(description="How it was found: header, user, history …")
    created: int
    closed_at: int | None


class Closed(Described):
    turns: int
    closed: int = Field(description="Replies that nothing had come back to, closed by this very request.")
    still_writing: int


router = Router(auth=Bearer(None), tags=["sessions"])


@router.post("/sessions/{path:session}/close", summary="A session is over", response=Closed)
async def close(request: HttpRequest, session: str) -> dict[str, Any]:
    """By our id, or by the client's own name for it. Replies that nothing came back to are closed; feedback on them,
    or another message, opens them again. Closing a closed session changes nothing."""
    key = key_of(request)
    check_scope(key, "chat")  # a key that has spent its tokens may still say that it is done
    return await sync_to_async(close_named)(key, session)


def close_named(key: ApiKey, name: str) -> dict[str, Any]:
    """Close the session; how many of its replies that closed, and how many are still being written."""
    session = find_session(key, name)
    count = sessions.close(session)
    session.refresh_from_db()
    writing = session.turns.filter(status=Turn.Status.ANSWERING).count()
    return describe_session(session) | {"turns": session.turns.count(), "closed": count, "still_writing": writing}


def find_session(key: ApiKey, name: str) -> Session:
    """This key's session of that id, or of that name of the client's own. Raises SessionNotFound."""
    name = storable(name)
    of_key = Session.objects.visible_to(key.user).filter(key=key)
    found = of_key.filter(external_id=sessions.kept_name(name)).first() if name else None
    if found is None and (pk := as_uuid(name)):
        found = of_key.filter(pk=pk).first()
    if found is None:
        raise SessionNotFound(f"This key has no session {name!r}.")
    return found


def as_uuid(name: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(name)
    except ValueError:
        return None


def describe_session(session: Session) -> dict[str, Any]:
    return {
        "object": "session",
        "id": str(session.pk),
        "name": session.external_id or None,
        "client": session.client or None,
        "named_by": session.named_by or None,
        "created": int(session.created_at.timestamp()),
        "closed_at": int(session.closed_at.timestamp()) if session.closed_at else None,
    }
