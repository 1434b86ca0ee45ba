"""Which conversation a request belongs to, and which turn it continues, with no help from the client.

A client's own name for the session decides where it gives one. Otherwise the messages do: a request whose
history equals a stored turn, reply included, continues that turn. Clients rewrite what they replay (tool-call
ids, arguments, blanks, a note of their own at the end), so only what survives is compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from chat.models import ApiKey, Session, Turn

Message = Mapping[str, Any]

INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
"""How the client's own note begins; it comes and goes, and nobody said it."""

NEXT_STATE = ("user", "tool")
"""Who can answer a reply."""


def find(
    key: ApiKey, messages: Sequence[Message], *, external_id: str = "", named_by: str = "", client: str = ""
) -> tuple[Session, Turn | None]:
    """The session this request belongs to, made if need be, and the turn it continues. Two keys never share one."""
    about = {"client": client, "named_by": named_by or "history"}
    if name := external_id:
        name = name if len(name) <= 200 else hashlib.sha256(name.encode()).hexdigest()
        session, _ = Session.objects.get_or_create(user=key.user, key=key, external_id=name, defaults=about)
        return session, continued(Turn.objects.filter(session=session), messages)
    turn = continued(Turn.objects.filter(session__key=key), messages)
    return (turn.session, turn) if turn else (Session.objects.create(user=key.user, key=key, **about), None)


def continued(turns: QuerySet[Turn], messages: Sequence[Message]) -> Turn | None:
    """Of these turns the one that the messages continue: same history, same reply. The newest, if several match,
    but one that nobody has continued yet before any other."""
    history, _ = split(messages)
    if not history:
        return None
    matches = turns.filter(chain=chain(history)).select_related("session", "checkpoint")
    newest = matches.order_by("-created_at", "-position")
    return newest.filter(followers=None).first() or newest.first()


def split(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """The messages up to the last reply, and what was said after it: all users' and tools' messages, in order.

    >>> say = lambda role, content: {"role": role, "content": content}
    >>> history, said = split([say("user", "Hi"), say("assistant", "Hello"), say("user", "Bye")])
    >>> len(history), [message["content"] for message in said]
    (2, ['Bye'])
    """
    end = max((n for n, message in enumerate(messages, 1) if message["role"] == "assistant"), default=0)
    return list(messages[:end]), [m for m in messages[end:] if m["role"] in NEXT_STATE and not is_internal(m)]


def chain(messages: Sequence[Message]) -> str:
    """SHA-256, hex, over the messages in order, each as `essence` leaves it. Instructions do not count: clients
    rewrite theirs at every call."""
    kept = [essence(message) for message in messages if message["role"] in ("assistant", *NEXT_STATE)]
    digest = b""
    for said in kept:
        if said is not None:
            digest = hashlib.sha256(digest + json.dumps(said, sort_keys=True).encode()).digest()
    return digest.hex()


def essence(message: Message) -> dict[str, Any] | None:
    """What of a message survives a client's rewriting; None for one that nobody said."""
    if is_internal(message):
        return None
    text = message.get("content") or ""
    if message["role"] == "assistant":
        text = re.sub(r"<think>.*?(</think>|\Z)", "", text, flags=re.S)
    said: dict[str, Any] = {"role": message["role"], "content": text.strip()}
    if calls := message.get("tool_calls"):
        said["calls"] = [called(call.get("function") or {}) for call in calls]
    if message["role"] == "tool":
        said["answers"] = re.sub(r"[^0-9A-Za-z]", "", str(message.get("tool_call_id") or ""))
    return said if text.strip() or calls or message["role"] == "tool" else None


def called(function: Mapping[str, Any]) -> list[Any]:
    """A tool call without its id, its arguments as values: clients write both anew."""
    arguments = function.get("arguments")
    with suppress(ValueError):  # no JSON: compared as the text it is
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return [function.get("name"), arguments]


def is_internal(message: Message) -> bool:
    return message["role"] == "user" and str(message.get("content") or "").lstrip().startswith(INTERNAL)


@transaction.atomic
def close(session: Session) -> None:
    """The conversation is over: replies that nothing came back to have nothing to teach. Feedback re-opens them."""
    Session.objects.filter(pk=session.pk).update(closed_at=timezone.now())
    for turn in session.turns.filter(status=Turn.Status.SERVED).select_for_update():
        turn.move(Turn.Status.CLOSED)
