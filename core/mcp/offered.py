"""Tools of a server in OpenAI's form. Its words are a stranger's: they are escaped, renamed, bounded or refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.visible import name_fault, visible

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MOST_TOOLS = 128
MOST_NAME = 128
"""Characters of a tool's name: what the protocol advises."""
MOST_DESCRIPTION = 2000
"""Characters."""
MOST_SCHEMA = 32_000
"""Characters of a tool's schema, as JSON."""
MOST_ALL = 256_000
"""Characters of all schemas and descriptions together."""
MOST_DEPTH = 24


@dataclass(frozen=True)
class Listed:
    """A tool as its server lists it."""

    name: str
    description: str
    schema: Any


@dataclass
class Offered:
    """The tools that an agent has, and what each is called at its server. A name once given means one tool for good."""

    reserved: frozenset[str] = frozenset()
    """Names of tools that are not the server's."""
    hidden: frozenset[str] = frozenset()
    """The server's tools that no agent has: they score it."""
    only: frozenset[str] | None = None
    """The server's tools that the task gives; None: all that are not hidden."""
    tools: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """In OpenAI's form, by the name that the agent knows."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each of the server's tools that is not offered and might have been."""
    _names: dict[str, str] = field(default_factory=dict)
    """The server's name for each that was ever given."""

    def original(self, name: str) -> str:
        """What the server calls a tool of `tools`."""
        return self._names[name]

    def read(self, listed: Iterable[Listed]) -> str:
        """Take a server's list in place of the last one, and say what is different; empty where nothing is."""
        before, self.tools, self.left_out = self.tools, {}, []
        seen: set[str] = set()
        room = MOST_ALL
        for tool in listed:
            if tool.name in self.hidden or (self.only is not None and tool.name not in self.only):
                continue
            fault = "another has the same name" if tool.name in seen else fault_of(tool)
            seen.add(tool.name)
            if not fault and len(self.tools) == MOST_TOOLS:
                fault = f"there are {MOST_TOOLS} before it"
            if not fault:
                made = _openai(self._name(tool.name), tool)
                room -= len(json.dumps(made))
                fault = f"all tools together have over {MOST_ALL:,} characters" if room < 0 else ""
            if fault:
                self.left_out.append(f"The tool {shown_name(tool.name)} is not offered: {fault}.")
                continue
            self.tools[made["function"]["name"]] = made
        return changes(before, self.tools)

    def _name(self, original: str) -> str:
        """A name of OpenAI's pattern for a server's tool: its own where it can be, and the same at each listing."""
        for given, named in self._names.items():
            if named == original:
                return given
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", original)[:64]
        name, number = plain, 1
        while name in self.reserved or name in self._names:
            number += 1
            name = f"{plain[: 63 - len(str(number))]}_{number}"
        self._names[name] = original
        return name


def fault_of(tool: Listed) -> str:
    """Why a tool cannot be offered, as the end of a sentence; empty where it can.

    >>> fault_of(Listed("add", "", {"type": "object"})), fault_of(Listed("add", "", {"type": "array"}))
    ('', 'its arguments are no JSON object')
    """
    if not tool.name:
        return "it has no name"
    if len(tool.name) > MOST_NAME:
        return f"its name has {len(tool.name):,} characters, and at most {MOST_NAME} are read"
    if name_fault(tool.name):
        return "its name holds characters that are not seen"
    if not isinstance(tool.schema, Mapping) or tool.schema.get("type", "object") != "object":
        return "its arguments are no JSON object"
    if not isinstance(tool.schema.get("properties", {}), Mapping):
        return "its properties are no JSON object"
    required = tool.schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        return "what it requires is no list of names"
    if depth(tool.schema) > MOST_DEPTH:
        return f"its schema is nested deeper than {MOST_DEPTH}"
    try:
        size = len(json.dumps(tool.schema, allow_nan=False))
    except ValueError:
        return "its schema holds a number that is none"
    if size > MOST_SCHEMA:
        return f"its schema has {size:,} characters, and at most {MOST_SCHEMA:,} are read"
    if any(name_fault(name) for name in names_in(tool.schema)):
        return "a name in its schema holds characters that are not seen"
    return ""


def depth(value: Any) -> int:
    """How deeply lists and objects are nested, without recursion: a server decides how deep that is."""
    deepest, left = 0, [(value, 1)]
    while left:
        one, at = left.pop()
        if isinstance(one, Mapping | list):
            deepest = max(deepest, at)
            left += [(each, at + 1) for each in (one.values() if isinstance(one, Mapping) else one)]
    return deepest


def names_in(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


def _openai(name: str, tool: Listed) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}} | visible_in(tool.schema)
    said = visible(tool.description).strip()
    if len(said) > MOST_DESCRIPTION:
        said = f"{said[:MOST_DESCRIPTION]} [{len(said) - MOST_DESCRIPTION:,} characters left out]"
    function = {"name": name, "description": said, "parameters": schema}
    return {"type": "function", "function": function}


def visible_in(value: Any) -> Any:
    """The same JSON with marks for what is not seen in its texts."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {name: visible_in(each) for name, each in value.items()}
    return [visible_in(each) for each in value] if isinstance(value, list) else value


def shown_name(name: str) -> str:
    """A server's name for a tool, as it can stand in a sentence.

    >>> shown_name("a" * 100), shown_name("read\\nfile")
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", "'read␊file'")
    """
    cut = visible(name[:60], one_line=True)
    return f"'{cut}{'…' if len(name) > 60 else ''}'"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What an agent is told of a list that has changed.

    >>> changes({"a": 1, "b": 1}, {"b": 2, "c": 1})
    'New: c. Gone: a. Changed: b.'
    """
    parts: dict[str, Sequence[str]] = {
        "New": [name for name in after if name not in before],
        "Gone": [name for name in before if name not in after],
        "Changed": [name for name in after if name in before and after[name] != before[name]],
    }
    return " ".join(f"{what}: {', '.join(names)}." for what, names in parts.items() if names)
