"""Strip messages of what a client put among and around the words that people said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chat.clients import files
from chat.clients.sorting import words
from chat.requests import Message


def places_of_said(messages: Sequence[Message], client: str) -> list[int]:
    """The places of the messages that a person, a model or a tool said: instructions count, a client's own notes do
    not."""
    rules = files.of(client)
    return [n for n, message in enumerate(messages) if message["role"] != "user" or rules.is_said(words(message))]


def strip_messages(messages: Sequence[Message], client: str) -> list[dict[str, Any]]:
    """The messages as a judge may read them, users' words bare; the originals are left as they were."""
    rules = files.of(client)
    bare = [dict(messages[n]) for n in places_of_said(messages, client)]
    for message in bare:
        if message["role"] == "user":
            message["content"] = rules.words(words(message))
    return bare
