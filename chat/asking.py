"""A request for a reply, whatever protocol it came by: the one way from a door to turns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from chat import clients, retries, sessions, turns
from chat.clients.sorting import Sorted
from chat.models import ApiKey, Turn
from chat.requests import Ask
from chat.stories import Story
from core import stores
from gpu_workers.schema_keywords import SchemaRefused


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
