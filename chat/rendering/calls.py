"""Parse one tool call as the model writes it: its name, then its arguments as JSON text, bit by bit.

How calls are written in general is `chat.rendering.calling`'s; where one begins and ends in a reply is
`chat.rendering.model_output`'s."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from chat.rendering.calling import FUNCTION

HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')
NAMED = re.compile(r"([\w.:/-]{1,128})(?:\[CALL_ID\]\w{0,40})?(?:\[ARGS\])?\s*(?=\{)")
NAMING = re.compile(r"[\w.:/-]{1,128}(?:\[[\w\]\[]{0,64})?\s*")
PARAMETER, END_PARAMETER, END_FUNCTION = "<parameter=", "</parameter>", "</function>"


class Call:
    """Parse one call as it is written. With `flows` set, `more` gives its arguments bit by bit after its name."""

    def __init__(self, types: Mapping[str, Mapping[str, str]], is_bare: bool, is_listed: bool = False) -> None:
        self.name = ""
        self.raw = ""  # as written
        self.state: Literal["open", "whole", "broken"] = "open"
        self.is_listed = self._follows = is_listed  # a list may begin with the first call, not with a later one
        self.is_told = False
        self.flows = False
        self.is_damaged = False  # whole by its brackets, and no JSON
        self._types, self._is_bare = types, is_bare
        self._ahead = ""  # read, and not yet understood
        self._arguments: list[str] = []
        self._take: Callable[[str], str] = self._begin
        # An object: what was read of it, and where in it the arguments stand.
        self._body = ""
        self._start: int | None = None
        self._end: int | None = None
        self._given = 0
        self._depth, self._quoted, self._escaped = 0, False, False
        # A function with a tag a parameter.
        self._parameter = ""
        self._count = 0
        self._is_said = False  # the parameter's beginning was given out

    @property
    def taken(self) -> int:
        return len(self.raw)

    def take(self, text: str) -> str:
        """Read on; what stands behind the call is given back."""
        rest = self._take(text)
        self.raw = (self.raw + text)[: len(self.raw) + len(text) - len(rest)]
        return rest

    def end(self) -> None:
        """Nothing more comes, and it is not whole."""
        self._arguments.append(quote(self._ahead) if self._is_said else self._ahead)

    def can_flow(self) -> bool:
        """Let the arguments out from now on, if the name is known."""
        if self._start is None and (head := HEAD.match(self._body)):
            self._find(head)
        self.flows = bool(self.name)
        return self.flows

    def is_readable(self) -> bool:
        """Whether the arguments came whole, though what stands around them is no call."""
        if not self._start or self._end is None:
            return False
        try:
            json.loads(self._body[self._start : self._end], parse_constant=refuse)
        except (ValueError, RecursionError):
            return False
        return True

    def more(self) -> str:
        """What came of the arguments, JSON text, since this was last asked."""
        if self._start is None:
            more, self._arguments = "".join(self._arguments), []
            return more
        end = len(self._body) if self._end is None else self._end
        start, self._given = max(self._start, self._given), end
        return self._body[start:end]

    def tail(self) -> str:
        """What was read behind the arguments."""
        return "" if self._end is None else self._body[self._end :]

    def _begin(self, text: str) -> str:
        """Find out how this call is written."""
        self._ahead += text
        ahead = self._ahead.lstrip()
        if ahead.startswith("[") and not self._follows:
            self.is_listed, ahead = True, ahead[1:].lstrip()
        if not ahead or (FUNCTION.startswith(ahead) and ahead != FUNCTION):
            return ""
        if ahead.startswith(FUNCTION):
            return self._go(self._naming, ahead[len(FUNCTION) :])
        if ahead.startswith("{"):
            return self._go(self._object, ahead)
        if named := NAMED.match(ahead):
            self.name, self._start = named[1], 0
            return self._go(self._object, ahead[named.end() :])
        return "" if NAMING.fullmatch(ahead) else self._break(self._ahead)

    def _go(self, take: Callable[[str], str], text: str) -> str:
        self._take, self._ahead = take, ""
        return take(text)

    def _break(self, rest: str) -> str:
        self.state = "broken"
        return rest

    def _object(self, text: str) -> str:
        """JSON, up to the bracket that closes it."""
        mended = []
        try:
            for n, c in enumerate(text):
                if self._quoted:
                    if self._escaped:
                        self._escaped = False
                    elif c == "\\":
                        self._escaped = True
                    elif c == '"':
                        self._quoted = False
                    elif c < " ":
                        c = quote(c)  # models write a line break as it is
                elif c == '"':
                    self._quoted = True
                elif c in "{[":
                    self._depth += 1
                elif c in "}]":
                    self._depth -= 1
                elif c == "<":  # a tag: no JSON has one outside its strings
                    return self._break(text[n:])
                mended.append(c)
                if self._depth == 1 and c in "}]" and not self._quoted:
                    self._body += "".join(mended)
                    mended.clear()
                    self._note_end()
                elif self._depth == 0:
                    self._body += "".join(mended)
                    mended.clear()
                    self._close()
                    return text[n + 1 :]
        finally:
            self._body += "".join(mended)
        return ""

    def _note_end(self) -> None:
        """A member's brackets closed: perhaps those of the arguments."""
        if self._start is None and (head := HEAD.match(self._body)):
            self._find(head)
        if self._start and self._end is None:
            self._end = len(self._body)

    def _find(self, head: re.Match[str]) -> None:
        with suppress(ValueError):  # the object will prove to be no JSON
            self.name, self._start = json.loads(head[1]), head.end()

    def _close(self) -> None:
        """The object is whole: see whether it is a call."""
        self.state = "whole"
        try:
            held = json.loads(self._body, parse_constant=refuse)
            if self._start is None:
                self._understand(held)
        except (ValueError, RecursionError):
            self.is_damaged = self.flows
            self.state = "whole" if self.flows and self.tail().strip() == "}" else "broken"

    def _understand(self, held: dict[str, Any]) -> None:
        """A call with its members in another order than usual. Raises ValueError when it is none."""
        function = held.get("function")
        held = function if isinstance(function, dict) else held
        name = held.get("name") or function
        given = held.get("arguments", held.get("parameters", None if self._is_bare else {}))
        if isinstance(given, str):
            given = json.loads(given, parse_constant=refuse)
        if not (isinstance(name, str) and isinstance(given, dict)):
            raise ValueError("an object, and no call")
        self.name, self._arguments = name, [json.dumps(given, ensure_ascii=False)]

    def _naming(self, text: str) -> str:
        """<function=NAME>"""
        self._ahead += text
        name, closed, rest = self._ahead.partition(">")
        if len(name) > 128 or (closed and not NAMING.fullmatch(name)):
            return self._break(self._ahead)
        if not closed:
            return ""
        self.name = name
        self._arguments.append("{")
        return self._go(self._between, rest)

    def _between(self, text: str) -> str:
        """<parameter=KEY>, or the end of the function."""
        self._ahead += text
        ahead = self._ahead.lstrip()
        if ahead.startswith(END_FUNCTION):
            self._arguments.append("}")
            self.state = "whole"
            return ahead[len(END_FUNCTION) :]
        if ahead.startswith(PARAMETER):
            key, closed, rest = ahead[len(PARAMETER) :].partition(">")
            if len(key) > 128:
                return self._break(self._ahead)
            if closed:
                self._parameter = key
                self._arguments.append((", " if self._count else "") + json.dumps(self._parameter) + ": ")
                self._count += 1
                return self._go(self._value, rest)
            return ""
        return "" if PARAMETER.startswith(ahead) or END_FUNCTION.startswith(ahead) else self._break(self._ahead)

    def _value(self, text: str) -> str:
        """Up to </parameter>; a text is given out as it is written, anything else when it is whole."""
        self._ahead += text
        kind = self._types.get(self.name, {}).get(self._parameter, "")
        at = self._ahead.find(END_PARAMETER)
        if at < 0:
            if kind == "string":
                end = len(self._ahead) - count_begun("\n" + END_PARAMETER, self._ahead)
                end -= count_begun(END_PARAMETER, self._ahead[:end])
                self._say(self._ahead[:end])
                self._ahead = self._ahead[end:]
            return ""
        value, rest = self._ahead[:at].removesuffix("\n"), self._ahead[at + len(END_PARAMETER) :]
        if kind == "string":
            self._say(value)
            self._arguments.append('"' if self._is_said else '""')
        else:
            self._arguments.append(as_json(value.removeprefix("\n"), kind))
        self._is_said = False
        return self._go(self._between, rest)

    def _say(self, text: str) -> None:
        if text and not self._is_said:
            self._is_said, text = True, text.removeprefix("\n")
            self._arguments.append('"')
        self._arguments.append(quote(text))


def count_begun(tag: str, text: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`.

    >>> count_begun("</think>", "so it is.</th"), count_begun("</think>", "so it is.")
    (4, 0)
    """
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)


def quote(text: str) -> str:
    """`text` as it stands within the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_json(value: str, kind: str) -> str:
    """A parameter's text as the JSON value that its schema's kind makes of it; a string where it is none.

    >>> as_json("3", "integer"), as_json("True", "boolean"), as_json("many", "integer"), as_json("null", "text")
    ('3', 'true', '"many"', 'null')
    """
    text = value.strip()
    if text in ("True", "False", "None"):
        text = {"True": "true", "False": "false", "None": "null"}[text]
    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return text if kind != "text" or text == "null" else json.dumps(value, ensure_ascii=False)


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
