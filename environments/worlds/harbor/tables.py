"""Read a table of task.toml or task.yaml: right kinds, a sentence for what is wrong, and unknown keys are said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from environments.errors import Unplayable

Kind = Literal["text", "number", "whole number", "yes or no", "list of texts", "table of texts", "table", "list", "any"]


def fits(value: Any, kind: Kind) -> bool:
    """
    >>> fits(1, "number"), fits(True, "number"), fits({"a": "b"}, "table of texts"), fits([1], "list of texts")
    (True, False, True, False)
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return {
        "text": isinstance(value, str),
        "number": is_number,
        "whole number": is_number and isinstance(value, int),
        "yes or no": isinstance(value, bool),
        "list of texts": isinstance(value, list) and all(isinstance(each, str) for each in value),
        "table of texts": isinstance(value, dict) and all(isinstance(each, str) for each in value.values()),
        "table": isinstance(value, dict),
        "list": isinstance(value, list),
        "any": True,
    }[kind]


@dataclass
class Table:
    """One table of a file. `notes` collects what a task says and is not honoured, for the whole file."""

    file: str
    name: str
    """Empty for the top."""
    values: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def at(self, key: str) -> str:
        """The file and the place, as sentences begin."""
        return f"{self.file}: {f'[{self.name}] ' if self.name else ''}{key}"

    def get(self, key: str, kind: Kind, default: Any = None) -> Any:
        """Raises Unplayable for a value of another kind. A null is as good as a key that is not there."""
        value = self.values.get(key)
        if value is None:
            return default
        if not fits(value, kind):
            article = "" if kind == "yes or no" else "a "
            raise Unplayable(f"{self.at(key)} is {value!r:.80}, and {article}{kind} belongs there.")
        return value

    def choose(self, key: str, among: tuple[str, ...]) -> str | None:
        value = self.get(key, "text")
        if value is not None and value not in among:
            raise Unplayable(f"{self.at(key)} is {value!r:.80}: it is {', '.join(among[:-1])} or {among[-1]}.")
        return value

    def part(self, key: str) -> Table:
        """A table in this one; empty where it is not there."""
        name = f"{self.name}.{key}" if self.name else key
        return Table(self.file, name, self.get(key, "table", {}), self.notes)

    def parts(self, key: str) -> list[Table]:
        """A list of tables in this one."""
        found = self.get(key, "list", [])
        name = f"{self.name}.{key}" if self.name else key
        for each in found:
            if not isinstance(each, dict):
                raise Unplayable(f"{self.at(key)} holds {each!r:.80}, and tables belong there.")
        return [Table(self.file, f"{name}.{number}", each, self.notes) for number, each in enumerate(found)]

    def refuse(self, key: str, why: str) -> None:
        """Raises Unplayable where the key is given, and is neither empty nor zero."""
        if self.values.get(key):
            raise Unplayable(f"{self.at(key)}: {why}")

    def note(self, key: str, why: str) -> None:
        if self.values.get(key) is not None:
            self.notes.append(f"{self.at(key)}: {why}")

    def only(self, *known: str) -> None:
        """Say each key that is none of these."""
        for key in self.values:
            if key not in known:
                self.notes.append(f"{self.at(key)} is no key that is known here, and nothing was made of it.")


def megabytes(table: Table, key: str, older: str) -> int | None:
    """`key` in megabytes, or `older` as text: 512M, 2G.

    >>> megabytes(Table("task.toml", "environment", {"memory": "2G"}), "memory_mb", "memory")
    2048
    """
    value = table.get(key, "whole number")
    if value is not None or older not in table.values:
        return value
    said = table.get(older, "text").strip().upper()
    try:
        return int(float(said[:-1]) * {"G": 1024, "M": 1, "K": 1 / 1024}[said[-1]])
    except (KeyError, ValueError, IndexError):
        raise Unplayable(f"{table.at(older)} is {said!r:.80}: it reads 512M or 2G.") from None
