"""Set pictures into a prompt as the model's own chat template writes them, and count what they take. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from chat.rendering.template import read

HERE = "\ufdef"
"""Stands in a message for a picture until the template has laid it out."""

BROKEN = "\u200b"
"""A blank of no width. Servers that see turn a prompt with pictures into text and back: a control token that is spelled
in such a prompt is broken by it, for there its ids alone would not keep it plain text."""

FILES = ("preprocessor_config.json", "processor_config.json")

USUAL_TOKENS = 1024
"""Of a picture, where the model's files do not say."""

PART = {"type": "image"}

Render = Callable[[Sequence[Mapping[str, Any]]], str]


def set_in(content: str, pictures: Sequence[Mapping[str, Any]]) -> str:
    """The words of a message with a mark for each of its pictures, at its place.

    >>> set_in("AB", [{"at": 1}, {"at": 9}]).replace(HERE, "*")
    'A*B*'
    """
    pieces, before = [], 0
    for picture in pictures:
        at = max(before, min(int(picture.get("at", 0)), len(content)))
        pieces += [content[before:at], HERE]
        before = at
    return "".join([*pieces, content[before:]])


def wants_parts(render: Render) -> bool:
    """Whether the template reads lists of parts alone, and passes over a content that is a text."""
    try:
        return HERE not in render([{"role": "user", "content": HERE}]) and HERE in render(
            [{"role": "user", "content": [{"type": "text", "text": HERE}]}]
        )
    except Exception:  # whatever a template does with what it was not written for
        return False


def as_parts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in messages]


def placeholder(folder: Path, config: Mapping[str, Any], render: Render) -> str:
    """What the template writes for a picture; empty for a model that sees none: it has no part that sees, no processor
    of pictures, or a template that leaves them out."""
    if not isinstance(config.get("vision_config"), dict) or not any((folder / name).is_file() for name in FILES):
        return ""
    words = {"type": "text", "text": HERE}
    try:
        seen = render([{"role": "user", "content": [PART, words]}])
        unseen = render([{"role": "user", "content": [words]}])
    except Exception:  # as above
        return ""
    begun, _, end = unseen.partition(HERE)
    if not (seen.startswith(begun) and seen.endswith(HERE + end)):
        return ""
    return seen[len(begun) : len(seen) - len(HERE + end)]


class Counter:
    """Count about how many of the model's tokens a picture becomes: never too few, where its files say how."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        said = [json.loads(text) for name in FILES if (text := read(folder / name))]
        self._side = self._most = self._fixed = 0
        for one in said:
            held = one.get("image_processor") if isinstance(one.get("image_processor"), dict) else one
            if isinstance(held.get("patch_size"), int) and isinstance(held.get("merge_size"), int):
                self._side = held["patch_size"] * held["merge_size"]
                size = held.get("size") if isinstance(held.get("size"), dict) else {}
                self._most = int(held.get("max_pixels") or size.get("longest_edge") or 0)
            self._fixed = self._fixed or int(one.get("image_seq_length") or 0)
        self._fixed = self._fixed or int(config.get("mm_tokens_per_image") or config.get("image_seq_length") or 0)

    def tokens(self, width: int, height: int) -> int:
        if not self._side:
            return self._fixed or USUAL_TOKENS
        whole = ceil(width / self._side) * ceil(height / self._side)
        return min(whole, ceil(self._most / self._side**2)) if self._most else whole
