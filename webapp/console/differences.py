"""Two replies side by side: which words only one of them has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

ALIKE = 0.4
"""Below this share of common words two replies are simply different, and marks would only be noise."""


@dataclass(frozen=True)
class Piece:
    text: str
    only_here: bool


def between(left: str, right: str) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces, unchanged when put together; a piece that is `only_here` has no partner opposite.

    >>> [[p.text for p in side if p.only_here] for side in between("a b c", "a x c")]
    [['b'], ['x']]
    """
    ours, theirs = _words(left), _words(right)
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    if alike(ours, theirs) < ALIKE:
        return [Piece(left, False)], [Piece(right, False)]
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for tag, a, b, c, d in matcher.get_opcodes():
        for side, words in ((sides[0], ours[a:b]), (sides[1], theirs[c:d])):
            if words:
                side.append(Piece("".join(words), tag != "equal"))
    return sides


def alike(left: list[str], right: list[str]) -> float:
    """The share of words, spaces not counted, that both have in the same order; 1 for two empty texts."""
    ours, theirs = ([word for word in side if not word.isspace()] for side in (left, right))
    return SequenceMatcher(None, ours, theirs, autojunk=False).ratio()


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)
