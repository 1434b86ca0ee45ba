"""Parse a tool call that is one line: the tool's name, then a word for each of its parameters, in their order.

    <call>add 3 4

A parameter's kind decides what its word means. Where a word has blanks in it, is empty, or begins as JSON does, it
stands in quotes, as JSON; the last parameter takes the rest of its line, and `null` leaves one out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from chat.rendering.calls import Call, as_json

BRACKETED = ('"', "[", "{")


class Line(Call):
    """Parse one such call as it is written: it ends with its line, with the next call, or with the reply. What names
    no tool is no call, and what begins as an object is read as one."""

    def __init__(self, types: Mapping[str, Mapping[str, str]], opener: str) -> None:
        super().__init__(types, False)
        self._opener = opener

    def end(self) -> None:
        if self._take == self._begin:
            self._understand_line(self._ahead)
        else:
            super().end()

    def _begin(self, text: str) -> str:
        self._ahead += text
        ahead = self._ahead.lstrip()
        if ahead.startswith("{"):
            return self._go(self._object, ahead)
        ends = [at for end in ("\n", self._opener) if (at := ahead.find(end)) >= 0]
        if ends:
            self._understand_line(ahead[: min(ends)])
            return self._ahead if self.state == "broken" else ahead[min(ends) :]
        name = ahead.split(maxsplit=1)[:1]
        is_named = bool(name) and len(name[0]) < len(ahead)
        return self._break(self._ahead) if is_named and name[0] not in self._types else ""

    def _understand_line(self, line: str) -> None:
        read = read_line(line, self._types)
        if read is None:
            self.state = "broken"
            return
        self.name, arguments = read
        self._arguments.append(arguments)
        self.state = "whole"


def read_line(line: str, types: Mapping[str, Mapping[str, str]]) -> tuple[str, str] | None:
    """The name and the arguments, JSON text, of a call on a line; None where it is none. `types` are the kinds of each
    tool's parameters, in their order.

    >>> read_line("add 3 4", {"add": {"a": "integer", "b": "integer"}}), read_line("sub 3 4", {"add": {}})
    (('add', '{"a": 3, "b": 4}'), None)
    """
    name, *rest = line.split(maxsplit=1)[:2] or [""]
    kinds = types.get(name)
    if kinds is None or (rest and not kinds):
        return None
    members = []
    for (parameter, kind), word in zip(
        kinds.items(), _words(rest[0].strip() if rest else "", len(kinds)), strict=False
    ):
        if (value := _value(word, kind)) is not None:
            members.append(f"{json.dumps(parameter, ensure_ascii=False)}: {value}")
    return name, "{" + ", ".join(members) + "}"


def _words(text: str, most: int) -> list[str]:
    """At most so many words; the last of them is all that is left."""
    words: list[str] = []
    while text and len(words) < most - 1:
        word, text = _first(text)
        words.append(word)
    return [*words, text] if text else words


def _first(text: str) -> tuple[str, str]:
    """A word, whole in its quotes or brackets, and what follows it."""
    if text.startswith(BRACKETED):
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            end = 0
        if end and text[end : end + 1].strip() == "":
            return text[:end], text[end:].lstrip()
    word, *rest = text.split(maxsplit=1)
    return word, rest[0] if rest else ""


def _value(word: str, kind: str) -> str | None:
    """A word as JSON; None where it leaves its parameter out.

    >>> _value("7", "integer"), _value("7", "string"), _value('"a b"', "string"), _value("null", "string")
    ('7', '"7"', '"a b"', None)
    """
    if word == "null" and kind not in ("", "text") and "null" not in kind.split():
        return None
    if kind not in ("string", "text"):
        return as_json(word, kind)
    if word.startswith('"'):
        try:
            return word if isinstance(json.loads(word), str) else None
        except ValueError:
            pass
    return as_json(word, kind) if kind == "text" else json.dumps(word, ensure_ascii=False)
