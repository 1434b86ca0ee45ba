"""Open the turns that a request asks for: the one way in, for the API's protocols and for pages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from chat import clients, sessions, turns
from chat.api_keys import ApiKey
from chat.clients.sorting import Sorted
from chat.models import Turn
from chat.pictures import keeping, picture
from chat.replying import retries
from chat.requests import Ask, PageSession
from chat.sessions import Place
from chat.stories import Story
from core import stores
from gpu_workers.schemas.keywords import SchemaRefused

UNSORTED = Sorted(kind="")
"""A page's message: no client dressed it, so no rule file reads it."""


def open_turns(asker: ApiKey | PageSession, ask: Ask) -> list[Turn]:
    """Store the request as turns of the session it belongs to, one a choice (`ask.n`), ready to be answered.

    A retry gives the turns that it made the first time: opened anew, or `repeated`. Raises what turns.lay_out
    raises, with the place in the request, retries.KeyReused, turns.TurnUnfinished where a page asks while a reply is
    being written, PictureRefused, and stores.DiskFull where a reply could not be kept; nothing is stored then, no empty
    session either.
    """
    stores.check_room()
    messages, pictures = picture.take_out(ask.messages)
    ask = replace(ask, messages=messages)
    sorted_ = clients.sort_request(ask) if isinstance(asker, ApiKey) else UNSORTED
    prompt = lay_out(ask, sorted_)  # before the transaction: tokenising takes long, and others wait for its locks
    story = Story(prompt.messages, sorted_.client)
    try:
        with keeping.kept(pictures) as keep, transaction.atomic():
            if made := find_made(asker, ask, sorted_, prompt):
                return made
            place = find_place(asker, ask, sorted_, story)
            keep(place.session.pk)
            return turns.store(
                place,
                story,
                prompt,
                completion_ids(asker, ask),
                line=Turn.Line.MAIN if sorted_.is_main else Turn.Line.SIDE,
                kind=sorted_.kind,
                rule=sorted_.rule,
                protocol=ask.protocol,
                request_key=retries.request_key(ask, sorted_),
                learns=ask.learns and (asker.learns if isinstance(asker, ApiKey) else True),
                checkpoint=ask.checkpoint,
            )
    except IntegrityError as error:
        if isinstance(asker, ApiKey):
            raise
        # The first message of a session came twice at once: there was no session yet on which the second could wait.
        raise turns.TurnUnfinished(_("This message was sent already. Reload the page to see it.")) from error


def lay_out(ask: Ask, sorted_: Sorted) -> turns.Prompt:
    """turns.lay_out; a refusal says where in the request its cause stands."""
    try:
        return turns.lay_out(ask.messages, sampling=ask.sampling, tools=ask.tools, asked=note_request(ask, sorted_))
    except SchemaRefused as refusal:
        at = ask.places.get(f"tool {refusal.tool}" if refusal.tool else "schema", "")
        refusal.param = ".".join([at, *map(str, refusal.steps)])
        raise
    except turns.ReplyBegun as refusal:
        refusal.param = ask.places.get("messages", "messages")
        raise


def find_made(asker: ApiKey | PageSession, ask: Ask, sorted_: Sorted, prompt: turns.Prompt) -> list[Turn]:
    """The turns that this request made before; none where it is no retry. Raises retries.KeyReused."""
    if isinstance(asker, PageSession):
        return retries.find_sent(asker)
    return retries.find_retried(asker, ask, sorted_, prompt, ask.checkpoint)


def find_place(asker: ApiKey | PageSession, ask: Ask, sorted_: Sorted, story: Story) -> Place:
    """The session that the request belongs to, locked, and the turn it continues. Raises turns.TurnUnfinished."""
    if isinstance(asker, PageSession):
        place = sessions.place_on_page(asker, story)
        turns.check_answered(place.session)
        return place
    return sessions.place_request(
        asker,
        story,
        external_id=asker.conversation or sorted_.session,
        named_by="key" if asker.conversation else sorted_.named_by,
        is_main=sorted_.is_main,
        previous=ask.previous,
    )


def completion_ids(asker: ApiKey | PageSession, ask: Ask) -> list[str]:
    """One id a choice: the first is the message's own where a page gave it one."""
    own = asker.completion_id if isinstance(asker, PageSession) else ""
    first = own or f"{ask.prefix}{uuid.uuid4().hex}"
    return [first, *(f"{first}.{choice}" for choice in range(1, ask.n))]


def note_request(ask: Ask, sorted_: Sorted) -> dict[str, Any]:
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
