"""Two replies side by side: which words only one of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

from rapidfuzz.distance import Indel

ALIKE = 0.4
"""Below this share of common words two replies are simply different, and marks would only be noise."""

COMPARED = 2**26
"""Words of one text times words of the other that are compared in full, a bit of memory for each: 8 MiB. What is left
between the common beginning and end of longer texts is all gone and all new."""


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
    if alike(ours, theirs) < ALIKE:
        return [Piece(left, False)], [Piece(right, False)]
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for is_same, here, there in _steps(ours, theirs):
        for side, text in zip(sides, (here, there), strict=True):
            if text:
                side.append(Piece(text, not is_same))
    return sides


def alike(left: list[str], right: list[str]) -> float:
    """The share of words, spaces not counted, that both have in the same order; 1 for two empty texts."""
    ours, theirs = ([word for word in side if not word.isspace()] for side in (left, right))
    return Indel.normalized_similarity(ours, theirs)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)


@dataclass(frozen=True)
class Change:
    """A piece of one text that became another: `kind` is kept, gone or new."""

    text: str
    kind: str


def merged(before: str, after: str) -> list[Change]:
    """Both texts as one, word by word: what is gone stands before what is new in its place.

    >>> [(change.kind, change.text) for change in merged("a b c", "a x c")]
    [('kept', 'a '), ('gone', 'b '), ('new', 'x '), ('kept', 'c')]
    """
    changes = []
    for is_same, gone, new in _steps(_spaced_words(before), _spaced_words(after)):
        if is_same:
            changes.append(Change(new, "kept"))
            continue
        changes += [Change(text, kind) for text, kind in ((gone, "gone"), (new, "new")) if text]
    return changes


def _spaced_words(text: str) -> list[str]:
    """Words with the blanks behind them: a few hundred to a reply, none of which is everywhere."""
    return re.findall(r"\s+|\w+[^\S\n]*|[^\w\s][^\S\n]*", text)


def _steps(ours: list[str], theirs: list[str]) -> Iterator[tuple[bool, str, str]]:
    """Both texts from beginning to end: (whether both say the same here, what one says, what the other says)."""
    first = _common(ours, theirs)
    last = _common(ours[first:][::-1], theirs[first:][::-1])
    left, right = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
    steps = [(True, ours[:first], theirs[:first])]
    if len(left) * len(right) > COMPARED:
        steps.append((False, left, right))
    else:
        for step in Indel.opcodes(left, right):
            is_same = step.tag == "equal"
            steps.append((is_same, left[step.src_start : step.src_end], right[step.dest_start : step.dest_end]))
    steps.append((True, ours[len(ours) - last :], theirs[len(theirs) - last :]))
    for is_same, run in groupby((step for step in steps if step[1] or step[2]), key=itemgetter(0)):
        _, gone, new = zip(*run, strict=True)
        yield is_same, "".join(chain(*gone)), "".join(chain(*new))


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    """With how many of the same words both begin."""
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
