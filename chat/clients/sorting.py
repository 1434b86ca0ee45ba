"""Sort a request by rule files: its session's name, main line or side, and the rule that decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chat.clients import files
from chat.clients.rules import FARTHEST, Rules
from chat.models import Turn
from chat.requests import Ask

OTHER = "other"
"""The kind of a request that is no known side request and lacks what its client's main line has."""

SHARED = ("user", "side")
"""What names a session without saying that it is one conversation."""


@dataclass(frozen=True)
class Sorted:
    """How a request was sorted."""

    session: str = ""
    """What the client calls its session; empty: the messages must say."""
    named_by: str = ""
    """Where that name was found: header, user, side (side requests that name none), or a finder's name."""
    client: str = ""
    kind: str = "main"
    rule: str = ""
    """client/rule"""
    is_main: bool = True


@dataclass(frozen=True)
class Seen:
    """The parts of a request that rules read."""

    messages: Sequence[Mapping[str, Any]]
    has_tools: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    session_id: str = ""
    turn_type: str = ""
    user: str = ""
    prompt_cache_key: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, ask: Ask) -> Seen:
        return cls(
            ask.messages,
            bool(ask.tools),
            ask.headers,
            ask.session_id,
            ask.turn_type,
            ask.user,
            ask.prompt_cache_key,
            ask.metadata,
        )

    @classmethod
    def again(cls, turn: Turn) -> Seen:
        """A request that was stored; of its headers only those are known that a rule looked at then."""
        asked = turn.asked
        return cls(
            turn.messages,
            bool(turn.tools),
            asked.get("headers", {}),
            asked.get("session_id", ""),
            asked.get("turn_type", ""),
            asked.get("user", ""),
            asked.get("prompt_cache_key", ""),
            asked.get("metadata") or {},
        )

    def text_at(self, place: str) -> str:
        """The text there, without its far end where it is very long; empty when there is none."""
        if place not in self._texts:
            self._texts[place] = self._looked_up(place)[:FARTHEST]
        return self._texts[place]

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {}

    def _looked_up(self, place: str) -> str:
        kind, _, name = place.partition(":")
        if kind == "header":
            text = self.headers.get(name, "")
        elif kind == "field":
            text = self._field(name)
        elif place == "system":
            text = "\n".join(words(m) for m in self.messages if m["role"] in ("system", "developer"))
        elif place == "first_user":
            text = next((words(m) for m in self.messages if m["role"] == "user"), "")
        else:
            roles = ("user",) if place == "last_user" else ("user", "tool", "assistant")
            told = (m for m in reversed(self.messages) if m["role"] in roles)
            text = next((said for m in told if is_real(m, said := words(m))), "")
        return text

    def _field(self, name: str) -> str:
        if name in ("user", "prompt_cache_key", "session_id"):
            return str(getattr(self, name))
        outer, _, inner = name.partition(".")
        return str(self.metadata.get(inner, "")) if outer == "metadata" else ""


def sort_request(ask: Ask) -> Sorted:
    """Sort a request by the rules that stand now."""
    return sort_by(files.current(), Seen.of(ask))


def sort_by(shelf: Sequence[Rules], seen: Seen) -> Sorted:
    """Sort by these rule files, of which the first that knows the client counts.

    What the client says outright (X-Session-Id, X-Turn-Type, or the body's session_id and turn_type) decides. A
    turn type that is not said is looked for in the content, and is main where nothing speaks against it.
    """
    rules = next((rules for rules in shelf if rules.knows(seen)), shelf[-1])
    client = rules.client
    if seen.session_id.strip():
        session, named_by = rules.trimmed(seen.session_id), "header"
    else:
        session, named_by = rules.named(seen)
    if not session and seen.user.strip():
        session, named_by = f"user:{seen.user.strip()}", "user"

    side = rules.side_kind(seen)
    if said := seen.turn_type.strip().lower():
        kind, rule = ("main" if said == "main" else side or "side"), "x-turn-type"
    elif side:
        kind = rule = side
    else:
        kind = rule = "main" if rules.is_main(seen) else OTHER
    if not session and kind != "main":
        session, named_by = f"side:{client}", "side"
    return Sorted(session, named_by, client, kind, f"{client}/{rule}", kind == "main")


def is_real(message: Mapping[str, Any], text: str) -> bool:
    """Whether this is no client's own note."""
    return message["role"] != "user" or not any(rules.is_internal(text) for rules in files.current())


def words(message: Mapping[str, Any]) -> str:
    """A message's text; a list of parts as one text."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
