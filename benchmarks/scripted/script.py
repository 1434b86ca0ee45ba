"""Script an engine: lines, and which of them answers a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.scripted.errors import Refused


@dataclass
class Line:
    says: str
    to: re.Pattern[str] | None = None
    left: int | None = 1
    """Answers left; None: for ever."""
    finish_reason: str = "stop"

    @classmethod
    def read(cls, line: dict[str, Any]) -> Line:
        if unknown := line.keys() - {"to", "says", "times", "finish_reason"}:
            raise Refused(f"a line of the script knows no {sorted(unknown)[0]!r}")
        reason = line.get("finish_reason", "stop")
        if reason not in ("stop", "length", "abort", "error"):
            raise Refused(f"finish_reason cannot be {reason!r}")
        if not isinstance(line.get("says"), str):
            raise Refused("a line of the script lacks what it says")
        try:
            to = re.compile(line["to"], re.S) if line.get("to") else None
        except re.error as error:
            raise Refused(f"no regular expression: {error}") from error
        return cls(line["says"], to, line.get("times", 1), reason)


class Script:
    """Lines in the order in which they were added. The first that fits a prompt answers it."""

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.lines = list(lines)

    def take(self, prompt: Callable[[], str]) -> Line | None:
        """The line that answers this prompt, with one answer less left; None where none fits. `prompt` is called only
        if a line has a pattern."""
        text: str | None = None
        for line in self.lines:
            if line.to is not None:
                text = prompt() if text is None else text
                if not line.to.search(text):
                    continue
            if line.left is not None:
                line.left -= 1
                if line.left <= 0:
                    self.lines.remove(line)
            return line
        return None
