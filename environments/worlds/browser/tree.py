"""What an agent reads of a page: a line for each element that it can act on, numbered, and the text between them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from core.visible import visible

MOST_TEXT = 200
"""Characters of one text or name."""
MOST_VALUE = 400
"""Characters of what stands in a field."""
MOST_LINES = 250
RGB = re.compile(r"rgba?\((\d+), (\d+), (\d+)")
COLOURS: Mapping[str, tuple[int, int, int]] = {
    "black": (0, 0, 0),
    "white": (255, 255, 255),
    "grey": (128, 128, 128),
    "red": (255, 0, 0),
    "green": (0, 128, 0),
    "lime": (0, 255, 0),
    "blue": (0, 0, 255),
    "olive": (128, 128, 0),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
    "orange": (255, 165, 0),
    "purple": (128, 0, 128),
    "pink": (255, 192, 203),
    "brown": (165, 42, 42),
}


def write(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page as text. What a page says stands in quotes, so none of it passes for an element.

    >>> print(write([{"depth": 0, "role": "textbox", "name": "", "number": 1, "state": ["focused"], "value": "a"},
    ...              {"depth": 0, "role": "text", "name": '[2] button "ok"'}]))
    [1] textbox value="a" focused
    "[2] button \\"ok\\""
    """
    shown = [_line(line) for line in lines[:MOST_LINES]]
    if more := len(lines) - MOST_LINES:
        shown += [f"({more} more lines)"] if more > 0 else []
    return "\n".join(shown) or "(the page is empty)"


def quote(text: str, most: int = MOST_TEXT) -> str:
    """A text of the page on one line, in quotes.

    >>> quote("a" * 9, 4)
    '"aaaa…"'
    """
    text = visible(text if len(text) <= most else f"{text[:most]}…", one_line=True)
    return json.dumps(text, ensure_ascii=False)


def _line(line: Mapping[str, Any]) -> str:
    parts = [f"[{line['number']}]"] if line.get("number") else []
    parts += [line["role"] if line["role"] != "text" else ""]
    parts += [quote(line["name"])] if line["name"] else []
    if line.get("value") is not None:
        parts += [f"value={quote(line['value'], MOST_VALUE)}"]
    parts += line.get("state") or []
    if line.get("colour"):
        parts += [colour_name(line["colour"])]
    if line.get("box"):
        left, top, width, height = line["box"]
        parts += [f"at {left + width // 2},{top + height // 2} size {width}x{height}"]
    return "  " * min(int(line["depth"]), 8) + " ".join(filter(None, parts))


def colour_name(said: str) -> str:
    """The nearest of a few names for a colour as CSS computes it.

    >>> colour_name("rgb(250, 5, 0)"), colour_name("url(#a)")
    ('red', '')
    """
    found = RGB.match(said)
    if not found:
        return ""
    mixed = tuple(map(int, found.groups()))
    return min(COLOURS, key=lambda name: sum((a - b) ** 2 for a, b in zip(COLOURS[name], mixed, strict=True)))
