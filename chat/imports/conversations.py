"""A chat as another program's export tells it, whichever program that was. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from core.errors import TalkbackError
from gpu_workers.types import storable

LONGEST_REPLY = 400_000
"""Characters of one message that is imported: what is longer is no chat."""


class ImportRefused(TalkbackError):
    """The file cannot be imported."""

    code, status = "import_refused", 422


@dataclass(frozen=True)
class Given:
    """One thing that a person said of a reply, as feedback.models has it."""

    kind: str
    value: int = 0
    text: str = ""
    tags: tuple[str, ...] = ()
    wish: str = ""
    spans: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Exchange:
    """What a person said, and the reply to it."""

    id: str
    after: str | None
    """The exchange that it continues; None: it begins the chat."""
    said: str
    reply: str
    model: str = ""
    at: datetime | None = None
    given: tuple[Given, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """One chat: its exchanges, each behind the one that it continues."""

    id: str
    title: str
    exchanges: Sequence[Exchange]
    begun: datetime | None = None
    active: datetime | None = None
    shown: str | None = None
    """The exchange whose branch its person saw last."""
    is_archived: bool = False
    is_pinned: bool = False

    def digest(self, kind: str) -> str:
        """By what this chat is known again, whatever was said in it since."""
        known = self.id or "\n".join(f"{one.said}\n{one.reply}" for one in self.exchanges[:3])
        return hashlib.sha256(f"{kind}\n{known}".encode()).hexdigest()


@dataclass
class Found:
    """What a file holds."""

    kind: str
    """chatgpt | openwebui | talkback"""
    conversations: list[Conversation] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """How many of what are left out: empty | unanswered | pictures | tools | thumbs | broken."""

    def summed_up(self) -> dict[str, Any]:
        """Numbers for the page."""
        exchanges = [one for chat in self.conversations for one in chat.exchanges]
        thumbs = [given for one in exchanges for given in one.given]
        return {
            "chats": len(self.conversations),
            "messages": len(exchanges),
            "thumbs": sum(given.kind == "thumb" for given in thumbs),
            "corrections": sum(given.kind != "thumb" for given in thumbs),
            "skipped": dict(self.skipped),
        }


@dataclass(frozen=True)
class Node:
    """One message of a tree, as ChatGPT and Open WebUI keep them."""

    id: str
    parent: str | None
    role: str
    """user | assistant; anything else is passed over, and what follows it is read on."""
    text: str
    model: str = ""
    at: datetime | None = None
    given: tuple[Given, ...] = ()


def read_tree(nodes: Mapping[str, Node], skipped: Counter[str]) -> tuple[list[Exchange], dict[str, str]]:
    """The exchanges of a tree of messages; and for each message the exchange that it belongs to. Replies that follow
    one another, as between a tool's answers, are one. A message without a reply is left out, and counted."""
    below: dict[str | None, list[str]] = {}
    for node in nodes.values():
        below.setdefault(node.parent if node.parent in nodes else None, []).append(node.id)
    exchanges: list[Exchange] = []
    of: dict[str, str] = {}
    # A message to look at, the exchange before it, what was said since, and the replies to that.
    left: list[tuple[str, str | None, list[Node], list[Node]]]
    left = [(pk, None, [], []) for pk in below.get(None, [])[::-1]]
    seen: set[str] = set()
    while left:
        pk, after, said, replies = left.pop()
        if pk in seen:  # a tree that bites its own tail
            continue
        seen.add(pk)
        node = nodes[pk]
        if node.role == "user" and node.text:
            if replies:
                after, said, replies = _end(exchanges, of, after, said, replies), [], []
            said = [*said, node]
        elif node.role == "assistant" and node.text and said:
            replies = [*replies, node]
        further = below.get(pk, [])
        # Several replies to what was said so far are tries at it: they part here, and each is an exchange.
        if not further:
            if replies:
                _end(exchanges, of, after, said, replies)
            elif said:
                skipped["unanswered"] += 1
        left += [(one, after, said, replies) for one in further[::-1]]
    return exchanges, of


def _end(
    exchanges: list[Exchange], of: dict[str, str], after: str | None, said: list[Node], replies: list[Node]
) -> str:
    """The exchange that ends with these replies; made once, however many branches go on from it."""
    last = replies[-1]
    if last.id not in of:
        given = [one for reply in replies for one in reply.given]
        exchanges.append(
            Exchange(
                id=last.id,
                after=after,
                said="\n\n".join(one.text for one in said),
                reply="\n\n".join(one.text for one in replies),
                model=last.model,
                at=last.at or said[-1].at,
                given=tuple({one.kind: one for one in given}.values()),
            )
        )
        for one in (*said, *replies):
            of.setdefault(one.id, last.id)
    return of[last.id]


def text_in(value: Any) -> str:
    """A string of the file as it can be kept; empty for anything else."""
    return storable(value)[:LONGEST_REPLY].strip() if isinstance(value, str) else ""


def moment(value: Any) -> datetime | None:
    """A point in time as exports give it: seconds, milli-, micro- or nanoseconds since 1970, or ISO 8601."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    while value > 1e11:
        value /= 1000
    return datetime.fromtimestamp(value, UTC)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
