"""Read which session a request names, in any protocol: session id, turn type and end, by header or in the body."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pydantic import ConfigDict, model_validator

from chat.api.access import CREDENTIALS
from chat.api.sent import Sent
from chat.api.wire import storable
from chat.models import Session

Answer = TypeVar("Answer", bound=HttpResponseBase)


class Addressed(Sent):
    """The body of a request for a reply, with the session that it names."""

    model_config = ConfigDict(extra="allow")

    session_id: str | None = None
    turn_type: str | None = None
    session_done: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, body: Any) -> Any:
        return storable(body)

    def address(self, request: HttpRequest) -> dict[str, Any]:
        """The fields of chat.requests.Ask that do not depend on the protocol. A header outweighs the body."""
        headers = {storable(name.lower()): storable(value) for name, value in request.headers.items()}
        done = headers.get("x-session-done")
        return {
            "headers": {name: value for name, value in headers.items() if name not in CREDENTIALS},
            "session_id": headers.get("x-session-id") or self.session_id or "",
            "turn_type": headers.get("x-turn-type") or self.turn_type or "",
            "session_done": bool(self.session_done) if done is None else done.lower() in ("1", "true", "yes"),
            "body": request.body,
        }


def set_session_header(response: Answer, session: Session) -> Answer:
    """The answer, with the name that the client gave its session."""
    if session.external_id:
        response.headers["X-Session-Id"] = quote(session.external_id, safe=" :/@+=,;~!()[]{}|'")
    return response
