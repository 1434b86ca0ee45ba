"""A request for a reply, whatever protocol it came by: the one way from a door to turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from chat import clients, sessions, turns
from chat.models import ApiKey, Turn
from chat.sessions import Message
from gpu_workers.types import Sampling
from training.models import Checkpoint


@dataclass(frozen=True)
class Ask:
    """What is asked, in chat completions' terms: the other protocols are written as this."""

    messages: Sequence[Message]
    """OpenAI's chat shape, each content one text."""
    sampling: Sampling
    checkpoint: Checkpoint
    """Who is to answer."""
    protocol: str = "chat"
    """chat | responses | messages"""
    tools: Sequence[dict[str, Any]] = ()
    """[{"type": "function", "function": {"name", "description", "parameters"}}]"""
    tool_choice: str = "auto"
    """auto | none | required | =NAME, the one function that must be called"""
    parallel_tool_calls: bool = True
    schema: Mapping[str, Any] | None = None
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


def begin(key: ApiKey, ask: Ask) -> list[Turn]:
    """Store the request as turns of the session it belongs to, one a choice (`ask.n`), ready to be answered.

    Raises what turns.open_turn raises; nothing is stored then, no empty session either.
    """
    with transaction.atomic():
        sorted_ = clients.sort(ask)
        session, follows = sessions.find(
            key, ask.messages, external_id=sorted_.session, named_by=sorted_.named_by, client=sorted_.client
        )
        turn = turns.open_turn(
            session,
            ask.messages,
            sampling=ask.sampling,
            tools=ask.tools,
            follows=follows,
            line=Turn.Line.MAIN if sorted_.is_main else Turn.Line.SIDE,
            learns=ask.learns and key.learns,
            checkpoint=ask.checkpoint,
        )
    return [turn]
