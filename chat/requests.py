"""A request for a reply, in terms that all protocols and pages share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User

from chat.models import Session, Turn
from checkpoints.models import Checkpoint
from gpu_workers.types import Sampling

Message = Mapping[str, Any]
"""OpenAI's chat shape: role, content, and where there are any tool_calls or tool_call_id."""


@dataclass(frozen=True)
class Ask:
    """What is asked, in chat completions' terms: the other protocols are written as this."""

    messages: Sequence[Message]
    """OpenAI's chat shape, each content one text; its pictures are beside it (chat.pictures.picture.say)."""
    sampling: Sampling
    checkpoint: Checkpoint
    """Who is to answer."""
    protocol: str = "chat"
    """chat | responses | messages; empty for a page"""
    tools: Sequence[dict[str, Any]] = ()
    """[{"type": "function", "function": {"name", "description", "parameters"}}]"""
    tool_choice: str = "auto"
    """auto | none | required | =NAME, the one function that must be called"""
    parallel_tool_calls: bool = True
    schema: Mapping[str, Any] | bool | None = None
    """A JSON schema that the reply's text must satisfy."""
    n: int = 1
    prefix: str = "chatcmpl-"
    """How the ids that are given out begin."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The request's headers, names in lower case, credentials left out."""
    session_id: str = ""
    turn_type: str = ""
    session_done: bool = False
    """The reference's three, from the header or else from the body."""
    user: str = ""
    prompt_cache_key: str = ""
    previous: str = ""
    """The completion id that this continues, where the client says so (Responses)."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    learns: bool = True
    body: bytes = b""
    """The request as it came, by which a retry is known."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where in the request the messages stand, the reply's schema, and those of the tools, as `tool NAME`."""


@dataclass(frozen=True)
class PageSession:
    """The session of the page on which a person asks. A door has an API key in its place, and looks for the session."""

    user: User
    session: Session | None = None
    """None: the message begins one."""
    follows: Turn | None = None
    """The turn that the message continues; None: the one whose history its messages extend, if there is one."""
    completion_id: str = ""
    """The message's own, by which one that is sent twice makes one turn; empty: a turn each time."""
    instead_of: Turn | None = None
    """The turn whose message is sent anew, in the same words or in others."""
    compares: bool = False
    """The try is asked of another checkpoint, to be seen beside the one before: that says nothing against either."""
    learns: bool | None = None
    """Whether a session that begins is on the record; None: as this person's sessions are."""
