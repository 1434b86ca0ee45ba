"""What an agent reads of a tool's result: text, bounded, with all that is not text named."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.visible import visible

MOST_SHOWN = 4000
"""Characters of a result: its beginning and its end."""
NOTE = re.compile(r"\n\[([0-9,]{1,20}) characters left out\]\n")
"""What stands in their middle. A server may write one itself."""


@dataclass(frozen=True)
class Answered:
    """What a server answered a call."""

    content: Sequence[Mapping[str, Any]]
    """Blocks as the protocol has them."""
    structured: Any = None
    is_error: bool = False


def shown(answered: Answered, most: int = MOST_SHOWN) -> str:
    """The text of a result.

    >>> shown(Answered([{"type": "text", "text": "42"}, {"type": "image", "mimeType": "image/png", "data": "aGk="}]))
    '42\\n[image: image/png, 2 bytes, not shown]'
    >>> shown(Answered([]))
    '[nothing was returned]'
    """
    parts = [_block(block) for block in answered.content]
    if not parts and answered.structured is not None:
        parts = [json.dumps(answered.structured, ensure_ascii=False)]
    return cut("\n".join(part for part in parts if part), most) or "[nothing was returned]"


def cut(text: str, most: int = MOST_SHOWN) -> str:
    """A text that is safe to show, its middle left out where it is long.

    >>> cut("abcdefghij", 4)
    'ab\\n[6 characters left out]\\nij'
    """
    half = most // 2
    if len(text) > most:
        left_out = len(text) - 2 * half
        return f"{visible(text[:half])}\n[{left_out:,} characters left out]\n{visible(text[-half:])}"
    return visible(text)


def cut_again(text: str, most: int) -> str:
    """A text that `cut` may have shortened already, shorter still; its one note counts all that is left out.

    >>> cut_again(cut("abcdefghij", 4), 2)
    'a\\n[8 characters left out]\\nj'
    """
    found = NOTE.search(text)
    if found is None:
        return cut(text, most)
    half, head, tail = most // 2, text[: found.start()], text[found.end() :]
    left_out = max(0, len(head) - half) + max(0, len(tail) - half)
    if not left_out:
        return text
    left_out += int(found[1].replace(",", "") or 0)
    return f"{head[:half]}\n[{left_out:,} characters left out]\n{tail[-half:]}"


def _block(block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return f"[{kind}: {_line(block.get('mimeType'))}, {_bytes(block.get('data'))} bytes, not shown]"
    if kind == "resource_link":
        return f"[resource: {_line(block.get('name'))}, {_line(block.get('uri'))}, not read]"
    if kind == "resource":
        held = block.get("resource") or {}
        about = f"{_line(held.get('uri'))}, {_line(held.get('mimeType') or 'no type')}"
        if isinstance(held.get("text"), str):
            return f"[resource: {about}]\n{held['text']}"
        return f"[resource: {about}, {_bytes(held.get('blob'))} bytes, not shown]"
    return f"[{_line(kind)}: not shown]"


def _line(text: object) -> str:
    return visible(str(text)[:200], one_line=True)


def _bytes(encoded: object) -> str:
    """How many bytes a text in base64 stands for."""
    text = str(encoded or "").rstrip("=")
    return f"{len(text) * 3 // 4:,}"
