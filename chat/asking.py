"""A request for a reply, whatever protocol it came by: the one way from a door to turns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from chat import clients, retries, sessions, turns
from chat.clients.sorting import Sorted
from chat.models import ApiKey, Turn
from chat.stories import Message, Story
from core import stores
from gpu_workers.schema_keywords import SchemaRefused
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


def begin(key: ApiKey, ask: Ask) -> list[Turn]:
    """Store the request as turns of the session it belongs to, one a choice (`ask.n`), ready to be answered.

    A retry gives the turns that it made the first time: opened anew, or `repeated`. Raises what turns.lay_out
    raises, with the place in the request, retries.KeyReused, and stores.DiskFull where a reply could not be kept;
    nothing is stored then, no empty session either.
    """
    stores.check_room()
    sorted_ = clients.sort(ask)
    try:
        prompt = turns.lay_out(
            ask.messages, sampling=ask.sampling, tools=ask.tools, asked=noted(ask, sorted_)
        )  # no lock is held
    except SchemaRefused as refusal:
        at = ask.places.get(f"tool {refusal.tool}" if refusal.tool else "schema", "")
        refusal.param = ".".join([at, *map(str, refusal.steps)])
        raise
    except turns.ReplyBegun as refusal:
        refusal.param = ask.places.get("messages", "messages")
        raise
    story = Story(ask.messages, sorted_.client)
    with transaction.atomic():
        if made := retries.again(key, ask, sorted_, prompt, ask.checkpoint):
            return made
        place = sessions.placed(
            key,
            story,
            external_id=sorted_.session,
            named_by=sorted_.named_by,
            is_main=sorted_.is_main,
            previous=ask.previous,
        )
        first = f"{ask.prefix}{uuid.uuid4().hex}"
        return turns.store(
            place,
            story,
            prompt,
            [first, *(f"{first}.{choice}" for choice in range(1, ask.n))],
            line=Turn.Line.MAIN if sorted_.is_main else Turn.Line.SIDE,
            kind=sorted_.kind,
            rule=sorted_.rule,
            protocol=ask.protocol,
            request_key=retries.request_key(ask, sorted_),
            learns=ask.learns and key.learns,
            checkpoint=ask.checkpoint,
        )


def noted(ask: Ask, sorted_: Sorted) -> dict[str, Any]:
    """What else was asked for, as the turn keeps it: nothing that was left out, and of the headers only those that a
    rule looks at, so that rules can be tried on past turns."""
    headers = {name: ask.headers[name][:200] for name in clients.headers() if ask.headers.get(name)}
    everything = {
        "tool_choice": ask.tool_choice if ask.tool_choice != "auto" else "",
        "schema": dict(ask.schema) if isinstance(ask.schema, Mapping) else ask.schema,
        "metadata": dict(ask.metadata),
        "user": ask.user,
        "prompt_cache_key": ask.prompt_cache_key,
        "previous": ask.previous,
        "session_id": ask.session_id,
        "turn_type": ask.turn_type,
        "headers": headers,
        "n": ask.n if ask.n > 1 else None,
        "body": retries.body_key(ask, sorted_) if ask.headers.get("idempotency-key") else "",
    }
    asked = {name: value for name, value in everything.items() if value or (name == "schema" and value is not None)}
    return asked | ({} if ask.parallel_tool_calls else {"parallel_tool_calls": False})
