"""Mark which words only one of two replies has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter

from rapidfuzz.distance import Indel

ALIKE = 0.4
"""Below this share of common words two replies are not told apart place by place: what is marked then are the words
that the other does not have anywhere."""

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
        return _foreign(ours, theirs), _foreign(theirs, ours)
    sides: tuple[list[Piece], list[Piece]] = ([], [])
    for is_same, here, there in _steps(ours, theirs):
        for side, text in zip(sides, (here, there), strict=True):
            if text:
                side.append(Piece(text, not is_same))
    return sides


def has_marks(*sides: Sequence[Piece]) -> bool:
    """True when anything in these texts is marked: a legend without a mark would explain what is not there."""
    return any(piece.only_here for side in sides for piece in side)


def shorten(pieces: Sequence[Piece], most: int) -> tuple[list[Piece], list[Piece], int]:
    """The first `most` words of a text in pieces, what follows, and how many words that are. A text that is hardly
    longer stays whole.

    >>> first, rest, number = shorten([Piece("one two ", False), Piece("three four five", True)], 3)
    >>> [piece.text for piece in first], [piece.text for piece in rest], number
    (['one two ', 'three'], [' four five'], 2)
    """
    counts = [len(WORD.findall(piece.text)) for piece in pieces]
    if sum(counts) <= most * HARDLY:
        return list(pieces), [], 0
    first: list[Piece] = []
    left = most
    for at, (piece, count) in enumerate(zip(pieces, counts, strict=True)):
        if count >= left:
            end = [match.end() for match in WORD.finditer(piece.text)][left - 1] if left else 0
            head, tail = Piece(piece.text[:end], piece.only_here), Piece(piece.text[end:], piece.only_here)
            rest = [tail, *pieces[at + 1 :]]
            return [*first, head], [one for one in rest if one.text], sum(counts) - most
        first.append(piece)
        left -= count
    return first, [], 0


WORD = re.compile(r"\w+(?:['’-]\w+)*")

HARDLY = 1.25
"""A text that is so much longer than what is shown is shown whole: to unfold two words is a bother."""


def _foreign(ours: Sequence[str], theirs: Sequence[str]) -> list[Piece]:
    """A text in pieces: what is marked are words that the other does not have anywhere, with the blanks between."""
    known = {word.casefold() for word in theirs}
    is_word = [bool(WORD.match(word)) for word in ours]
    marked = [is_word[at] and word.casefold() not in known for at, word in enumerate(ours)]
    for at in range(1, len(ours) - 1):
        if ours[at].isspace() and marked[at - 1] and marked[at + 1]:
            marked[at] = True
    return [
        Piece("".join(word for _, word in run), only_here)
        for only_here, run in groupby(zip(marked, ours, strict=True), key=itemgetter(0))
    ]


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
