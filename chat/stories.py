"""Compare histories: reduce messages to what survives a client's rewriting, and digest that.

Clients rewrite what they replay: tool-call ids, arguments, blanks, a note of their own at the end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from sys import getsizeof
from typing import Any

import orjson

from chat import clients
from chat.clients.rules import Rules
from chat.clients.sorting import words
from chat.requests import Message
from core.kept import Kept

NEXT_STATE = ("user", "tool")
"""Who can answer a reply."""

LOOKED_BACK = 8
"""After the last reply in a request, how many of the messages may have had a reply that the client left out."""

ROOM = 32 * 2**20
"""Bytes that what survives of messages may take: some forty thousand messages of five hundred characters."""

OVERHEAD = 250
"""Bytes that one of them takes besides its texts."""

_kept: Kept[tuple[Rules, str, str], str] = Kept(ROOM)


@dataclass(frozen=True)
class Story:
    """A request's messages, as far as they survive a client's rewriting."""

    messages: Sequence[Message]
    client: str = ""
    cut: tuple[str, ...] = ()
    """The calls of the reply just before these messages, where the client has cut its history between the two."""

    @cached_property
    def rules(self) -> Rules:
        return clients.of(self.client)

    @cached_property
    def kept(self) -> list[tuple[int, dict[str, Any]]]:
        """(place among the messages, essence) of what was said, in order. Replies in a row are one reply: clients
        join them. Instructions do not count: clients rewrite theirs at every call."""
        dropped = dropped_calls(self.messages, self.rules)
        kept: list[tuple[int, dict[str, Any]]] = []
        calls = [*self.cut]
        for place, message in enumerate(self.messages):
            if message["role"] == "tool" and stripped_id(message.get("tool_call_id")) in dropped:
                continue
            said = essence(message, self.rules, calls=calls, dropped=dropped)
            goes_on = bool(kept) and kept[-1][1]["role"] == "assistant"
            if message["role"] == "assistant":
                calls = (calls if goes_on else []) + called_by(message)
            if said is None:
                continue
            if said["role"] == "assistant" and goes_on:
                said = join_replies(kept.pop()[1], said)
            kept.append((place, said))
        return kept

    @cached_property
    def end(self) -> int:
        """How many of `kept` go up to the last reply."""
        return max((n for n, (_, said) in enumerate(self.kept, 1) if said["role"] == "assistant"), default=0)

    @cached_property
    def digests(self) -> list[str]:
        """The chain of the first 0, 1, 2 … of `kept`: SHA-256, hex, each over the one before and what was said."""
        digest, digests = b"", [""]
        for _, said in self.kept:
            digest = hashlib.sha256(digest + encode_essence(said)).digest()
            digests.append(digest.hex())
        return digests

    @property
    def chain(self) -> str:
        """What a request that continues these messages has as its history."""
        return self.digests[-1]

    @property
    def request(self) -> str:
        """By what another try at this request is known: its chain, and the pictures that were sent with it. In a
        history a client may have left those out; of the same words with another picture this is no other try."""
        shown = [str(one["digest"]) for m in split(self.messages, self.client)[1] for one in m.get("pictures") or ()]
        return hashlib.sha256(" ".join([self.chain, *shown]).encode()).hexdigest() if shown else self.chain

    @cached_property
    def histories(self) -> dict[str, int]:
        """The chains that the turn may have which this continues, and how many of `kept` each covers: up to the last
        reply, and on to any later message whose reply the client left out."""
        later = range(max(self.end, len(self.kept) - LOOKED_BACK), len(self.kept))
        return {self.digests[length]: length for length in sorted({self.end, *later} - {0})}

    def said_after(self, length: int) -> list[Message]:
        """The next state of the turn that the first `length` of `kept` are: what people and tools said since."""
        since = self.kept[length - 1][0] if length else -1
        before = self.kept[length - 2][0] if length > 1 else -1  # several replies in a row were joined since then
        calls = {
            made for m in self.messages[before + 1 : since + 1] if m["role"] == "assistant" for made in called_by(m)
        }
        return [
            message
            for message in self.messages[since + 1 :]
            if message["role"] in NEXT_STATE
            and (message["role"] == "tool" or self.rules.is_said(words(message)))
            and not (message["role"] == "tool" and calls and stripped_id(message.get("tool_call_id")) not in calls)
        ]

    @cached_property
    def orphans(self) -> frozenset[str]:
        """The calls that are answered here, and whose reply is not."""
        made: set[str] = set()
        orphans = set()
        for message in self.messages:
            made.update(called_by(message))
            if message["role"] == "tool" and (answered := stripped_id(message.get("tool_call_id"))) not in made:
                orphans.add(answered)
        return frozenset(orphans)

    def behind(self, history: Sequence[Message]) -> Story:
        """This story, read as what a client left of that history: it may have cut it between a call and its result."""
        if not self.orphans:
            return self
        replies = (called_by(message) for message in reversed(history) if message["role"] == "assistant")
        cut = next((calls for calls in replies if self.orphans.intersection(calls)), [])
        return replace(self, cut=tuple(cut))

    @property
    def is_compacted(self) -> bool:
        """Old turns were replaced by a summary, and of the replies none is left, or the last one alone."""
        first = next((words(m) for m in self.messages if m["role"] == "user"), "")
        return self.end in (0, 2) and self.rules.said.summary.are_in(self.rules.words(first))


def split(messages: Sequence[Message], client: str = "") -> tuple[list[Message], list[Message]]:
    """The messages up to the last reply, and what was said after it: all users' and tools' messages, in order.

    >>> say = lambda role, content: {"role": role, "content": content}
    >>> history, said = split([say("user", "Hi"), say("assistant", "Hello"), say("user", "Bye")])
    >>> len(history), [message["content"] for message in said]
    (2, ['Bye'])
    """
    end = max((n for n, message in enumerate(messages, 1) if message["role"] == "assistant"), default=0)
    rules = clients.of(client)
    said = [m for m in messages[end:] if m["role"] in NEXT_STATE and (m["role"] == "tool" or rules.is_said(words(m)))]
    return list(messages[:end]), said


def chain(messages: Sequence[Message], client: str = "") -> str:
    """SHA-256, hex, over what of these messages survives; empty when nothing does."""
    return Story(messages, client).chain


def essence(
    message: Message, rules: Rules, *, calls: Sequence[str] = (), dropped: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """What of a message survives a client's rewriting; None where nothing of it does.

    `calls` are the ids of the calls that a tool's message may answer, `dropped` those that the client leaves out.
    """
    role, text = message["role"], words(message)
    if role == "user":
        # Clients leave out pictures as a conversation grows: they count where a message is nothing else.
        said = surviving(rules, role, text) or " ".join(str(one["digest"]) for one in message.get("pictures") or ())
        return {"role": role, "content": said} if said else None
    if role == "tool":
        answered = stripped_id(message.get("tool_call_id"))
        return {
            "role": role,
            "content": collapse_blanks(text),
            "answers": calls.index(answered) if answered in calls else answered,
        }
    if role != "assistant":
        return None
    reply: dict[str, Any] = {"role": role, "content": surviving(rules, role, text)}
    made = [call for call in message.get("tool_calls") or [] if stripped_id(call.get("id")) not in dropped]
    if made:
        reply["calls"] = [essence_of_call(call.get("function") or {}) for call in made]
    return reply if reply["content"] or made else None


def surviving(rules: Rules, role: str, text: str) -> str:
    """What of a user's message or of a reply a client leaves as it is. Histories come again and again: it is kept."""
    said = _kept.get((rules, role, text))
    if said is None:
        said = _surviving(rules, role, text)
        said = text if said == text else said  # most are as they came, and lie in memory once
        size = getsizeof(text) + (0 if said is text else getsizeof(said)) + OVERHEAD
        _kept.put((rules, role, text), said, size)
    return said


def _surviving(rules: Rules, role: str, text: str) -> str:
    if role == "user":
        return collapse_blanks(rules.words(text)) if rules.is_said(text) else ""
    return collapse_blanks(rules.reply(strip_thoughts(text)))


def dropped_calls(messages: Sequence[Message], rules: Rules) -> frozenset[str]:
    """The calls that the client leaves out of later history. What answers the last reply is not later yet."""
    if not rules.said.dropped:
        return frozenset()
    end = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    results = (m for m in messages[:end] if m["role"] == "tool" and rules.is_dropped(words(m)))
    return frozenset(stripped_id(result.get("tool_call_id")) for result in results)


def join_replies(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two replies in a row as one."""
    calls = [*one.get("calls", []), *other.get("calls", [])]
    content = " ".join(part for part in (one["content"], other["content"]) if part)
    return {"role": "assistant", "content": content} | ({"calls": calls} if calls else {})


def essence_of_call(function: Mapping[str, Any]) -> list[Any]:
    """A tool call without its id, its arguments as values: clients write both anew, and know one kind of number."""
    arguments = function.get("arguments")
    with suppress(ValueError, RecursionError):  # no JSON: compared as the text it is
        values = json.loads(arguments, parse_int=float) if isinstance(arguments, str) else arguments
        arguments = json.dumps(values, sort_keys=True)
    return [function.get("name"), arguments]


def encode_essence(said: Mapping[str, Any]) -> bytes:
    """What was said as bytes, the same for the same."""
    try:
        return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half a character
        return json.dumps(said, sort_keys=True).encode("utf-8", "replace")


def strip_thoughts(text: str) -> str:
    return re.sub(r"<think>.*?(</think>|\Z)", "", text, flags=re.S) if "<think>" in text else text


def collapse_blanks(text: str) -> str:
    """Every run of blanks as one blank: clients trim, join and wrap."""
    return " ".join(text.split())


def called_by(reply: Message) -> list[str]:
    """The ids of a reply's tool calls, as every client keeps them."""
    return [stripped_id(call.get("id")) for call in reply.get("tool_calls") or []]


def stripped_id(call_id: object) -> str:
    """Of a tool call's id what every client keeps."""
    return re.sub(r"[^0-9A-Za-z]", "", str(call_id or ""))
