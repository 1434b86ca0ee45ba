"""Gold follow-ups: what came back after a reply, and what people agree that it means. Judges are measured on them.

They were written by hand, for this alone: nothing is trained on them, and no prompt shows one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import TalkbackError
from judge.evidence import Evidence

FILE = Path(__file__).with_name("gold.jsonl")

ROLES = ("user", "tool", "environment", "test")


class GoldInvalid(TalkbackError):
    """A line of a gold set cannot be read."""

    code, status = "gold_invalid", 422


@dataclass(frozen=True)
class Item:
    """One follow-up, with what it says of the reply."""

    id: str
    role: str
    """Whose next state it is: user | tool | environment | test."""
    request: str
    reply: str
    next_state: tuple[str, ...]
    """Several where tools were called side by side."""
    score: int
    """-1, 0 or 1."""
    wants_hint: bool
    """Whether it says how the reply should have been."""
    hint_about: tuple[str, ...] = ()
    """A hint that holds any of these, whatever its case, names the change that is asked for."""

    @property
    def evidence(self) -> Evidence:
        """As a judge reads it. A test's output comes without the test's verdict, which would decide it by rule."""
        request = (("user", self.request),)
        if self.role == "test":
            return Evidence(request, self.reply, output="\n".join(self.next_state))
        return Evidence(request, self.reply, tuple((self.role, text) for text in self.next_state))

    @property
    def digest(self) -> str:
        """16 hex digits that change with anything in it: a changed item is read anew."""
        said = (self.role, self.request, self.reply, self.next_state, self.score, self.wants_hint, self.hint_about)
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]

    def is_named_in(self, hint: str) -> bool:
        """Whether a hint names the change that was asked for."""
        said = hint.casefold()
        return any(word.casefold() in said for word in self.hint_about)


@cache
def items() -> tuple[Item, ...]:
    """Those of the repository, in the order of the file."""
    return read(FILE)


@cache
def by_digest() -> Mapping[str, Item]:
    """The repository's items by what they say."""
    return {item.digest: item for item in items()}


def read(path: Path) -> tuple[Item, ...]:
    """The items of a file of your own: one JSON object a line. Raises GoldInvalid with the line's number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise GoldInvalid(f"{path} cannot be read: {error}") from error
    found = [_item(line, f"{path.name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise GoldInvalid(f"{path} holds no item.")
    if twice := _repeated(item.id for item in found):
        raise GoldInvalid(f"{path.name} has the id {twice} twice.")
    return tuple(found)


def _item(line: str, where: str) -> Item:
    try:
        said: Any = json.loads(line)
    except ValueError as error:
        raise GoldInvalid(f"{where} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise GoldInvalid(f"{where} is no object.")
    next_state = said.get("next_state")
    texts = tuple(next_state) if isinstance(next_state, list) else (next_state,)
    role = said.get("role", said.get("next_role"))
    for name, text in (("id", said.get("id")), ("request", said.get("request")), ("reply", said.get("reply"))):
        if not isinstance(text, str) or not text:
            raise GoldInvalid(f"{where}: {name} must be a text.")
    if role not in ROLES:
        raise GoldInvalid(f"{where}: role must be one of {', '.join(ROLES)}.")
    if not texts or not all(isinstance(text, str) for text in texts):
        raise GoldInvalid(f"{where}: next_state must be a text, or a list of texts.")
    if said.get("score") not in (-1, 0, 1) or isinstance(said.get("score"), bool):
        raise GoldInvalid(f"{where}: score must be -1, 0 or 1.")
    about = said.get("hint_about") or []
    if not isinstance(about, list) or not all(isinstance(word, str) and word for word in about):
        raise GoldInvalid(f"{where}: hint_about must be a list of words.")
    return Item(
        id=said["id"][:80],
        role=role,
        request=said["request"],
        reply=said["reply"],
        next_state=texts,
        score=said["score"],
        wants_hint=bool(said.get("wants_hint", bool(about))),
        hint_about=tuple(about),
    )


def _repeated(ids: Iterable[str]) -> str:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            return one
        seen.add(one)
    return ""
