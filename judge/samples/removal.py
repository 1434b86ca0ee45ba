"""A text without what is secret or personal in it: a placeholder in the place of each finding. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from judge.samples.personal.findings import Finding, compile_pattern, merge_overlapping
from judge.samples.personal.kinds import Wanted
from judge.samples.personal.passwords import is_named_secret
from judge.samples.personal.search import find

ROUNDS = 3
"""How often a text is looked through: what is left may read as a finding once something was taken out beside it."""

LITERAL = ("password", "phone", "card", "key")
"""Kinds of which a value that stood in one text is looked for, to the letter, in those that belong to it: a reply may
repeat a password that nothing around it calls one. Of passwords those that are no plain word (`is_distinctive`)."""


@dataclass
class Remover:
    """Takes findings out of several texts that belong together: the same value has the same placeholder in all.

    First every text is shown to it (`learn`), then each can be cleaned.
    """

    wanted: Wanted = field(default_factory=Wanted)
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """(kind, value without its blanks) to placeholder."""
    literal: dict[str, str] = field(default_factory=dict)
    """Values that are looked for to the letter, and of what kind they are."""
    removed: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Placeholders by (where, kind). Never what they stand for."""

    def learn(self, value: Any) -> None:
        """Remember what a text, or every text of a JSON value, holds that is to go."""
        for text, kind in texts_of(value, self.wanted):
            if kind:
                self._know(kind, text)
                continue
            for one in find(text, self.wanted):
                self._know(one.kind, text[one.start : one.end])

    def find(self, text: str) -> list[Finding]:
        """What is to go from this text."""
        found = find(text, self.wanted)
        for value, kind in self.literal.items():
            at = -1
            while (at := text.find(value, at + 1)) >= 0:
                if not within_word(text, at, at + len(value)):
                    found.append(Finding(at, at + len(value), kind))
        return merge_overlapping(found, self.wanted.precedence)

    def clean(self, text: str, where: str) -> str:
        """`text` with a placeholder for each finding.

        >>> remover = Remover()
        >>> remover.clean("ana@example.com and bo@example.com", "request"), remover.clean("To ana@example.com", "reply")
        ('[email 1] and [email 2]', 'To [email 1]')
        """
        for _ in range(ROUNDS):
            pieces = self.pieces(text, where)
            if not any(instead for _, instead in pieces):
                break
            text = "".join(instead or piece for piece, instead in pieces)
        return text

    def pieces(self, text: str, where: str) -> list[tuple[str, str]]:
        """`text` in pieces, each with the placeholder in its place; empty for what stays.

        >>> Remover().pieces("To ana@example.com.", "reply")
        [('To ', ''), ('ana@example.com', '[email 1]'), ('.', '')]
        """
        parts, at = [], 0
        for one in self.find(text):
            secret = text[one.start : one.end]
            parts += [(text[at : one.start], ""), (secret, self.name(one.kind, secret, where))]
            at = one.end
        return [part for part in (*parts, (text[at:], "")) if part[0]]

    def clean_value(self, value: Any, where: str) -> Any:
        """The same for every text in a JSON value; what a name such as "password" stands for goes whatever it is."""
        if isinstance(value, str):
            return self.clean(value, where)
        if isinstance(value, Mapping):
            return {
                key: self.name("password", inner, where)
                if is_named_secret(key, inner, self.wanted)
                else self.clean_value(inner, where)
                for key, inner in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.clean_value(inner, where) for inner in value]
        return value

    def clean_json(self, text: str, where: str) -> str:
        """The same for a JSON value that is kept as text; what is no JSON is cleaned as a text. Where nothing is
        found it stays as it is, to the letter."""
        value = loaded(text)
        if value is None:
            return self.clean(text, where)
        cleaned = self.clean_value(value, where)
        return text if cleaned == value else json.dumps(cleaned, ensure_ascii=False)

    def name(self, kind: str, value: str, where: str) -> str:
        """The placeholder of this value, which is counted as removed."""
        name = self._know(kind, value)
        self.removed.setdefault((where, kind), set()).add(name)
        return name

    def branch(self) -> Remover:
        """Another one that knows the same placeholders, and has removed nothing yet."""
        return Remover(self.wanted, dict(self.names), dict(self.literal))

    @property
    def told(self) -> list[dict[str, Any]]:
        """What was removed, as a sample keeps it: how many different values of a kind, and where."""
        return [
            {"where": where, "kind": kind, "count": len(names)} for (where, kind), names in sorted(self.removed.items())
        ]

    def _know(self, kind: str, value: str) -> str:
        same = kind, value if kind == "password" else "".join(value.split()).casefold()
        if same not in self.names:
            self.names[same] = f"[{kind} {1 + sum(1 for known, _ in self.names if known == kind)}]"
            if kind in LITERAL and (kind != "password" or is_distinctive(value)):
                self.literal.setdefault(value, kind)
        return self.names[same]


PLACEHOLDER = compile_pattern(r"\[([^\[\] ]+) [0-9]+\]")


def placeholders(text: str, wanted: Wanted) -> list[tuple[str, str]]:
    """(kind, placeholder) of those that stand in a text that was cleaned already.

    >>> placeholders("To [email 2], see [note 1].", Wanted())
    [('email', '[email 2]')]
    """
    found = PLACEHOLDER.finditer(text)
    return [(match[1], match[0]) for match in found if match[1] in wanted.all_kinds]


def texts_of(value: Any, wanted: Wanted) -> Iterator[tuple[str, str]]:
    """(text, kind) of every text in a JSON value; the kind where its name says that it is a password, else empty."""
    if isinstance(value, str):
        yield value, ""
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if is_named_secret(key, inner, wanted):
                yield inner, "password"
            else:
                yield from texts_of(inner, wanted)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_of(inner, wanted)


def loaded(text: str) -> Any:
    """The object or list that this is the JSON text of; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None


def is_distinctive(password: str) -> bool:
    """True where the same characters elsewhere can only be this password again; `test` and `data` stand everywhere.

    >>> [is_distinctive(value) for value in ("hunter2", "correct horse", "pa$$", "postgres", "read-only", "1234")]
    [True, True, True, False, False, False]
    """
    letters, digits = any(c.isalpha() for c in password), any(c.isdigit() for c in password)
    symbols = any(not (c.isalnum() or c.isspace() or c in "_-.") for c in password)
    return (letters and digits) or symbols or (len(password) >= 10 and not password.isalpha())


def within_word(text: str, start: int, end: int) -> bool:
    """True where these characters are part of a longer word or figure."""
    return (start > 0 and text[start - 1].isalnum()) or (end < len(text) and text[end].isalnum())
