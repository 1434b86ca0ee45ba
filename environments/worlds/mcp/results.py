"""What an agent reads of a tool's result: text, bounded, with all that is not text named."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.visible import visible
from environments.worlds.base import WorldFailed

MOST_SHOWN = 4000
"""Characters of a result: its beginning and its end."""


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


def verdict_of(answered: Answered, tool: str) -> float:
    """The share, 0 to 1, that a tool which scores gave. Raises WorldFailed for anything else: no agent is to blame.

    >>> verdict_of(Answered([{"type": "text", "text": "true"}]), "score")
    1.0
    >>> verdict_of(Answered([], {"score": 0.25}), "score")
    0.25
    """
    said = shown(answered, 200)
    if answered.is_error:
        raise WorldFailed(f"The tool {tool}, which scores, says that it failed: {said}")
    value: Any = answered.structured
    if value is None:
        try:
            value = json.loads("".join(str(block.get("text", "")) for block in answered.content))
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("score", "reward", "result") if name in value), None)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise WorldFailed(f"The tool {tool} gave no verdict, which is true, false, or 0 to 1: {said}")
    return float(value)
