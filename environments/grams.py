"""Words in a row, by which a text is told to say something again. Pure."""

from __future__ import annotations

import re

Gram = tuple[str, ...]

REPEATED = 4
"""Words in a row that count as said again."""

WORD = re.compile(r"\w+(?:['’]\w+)*")


def words(text: str) -> list[str]:
    """Every word and number, in lower case.

    >>> words("It's 3 o’clock.")
    ["it's", '3', 'o’clock']
    """
    return WORD.findall(text.casefold())


def grams(text: str, n: int) -> list[Gram]:
    """All runs of n words, in order; none where there are fewer words.

    >>> grams("One two three.", 2)
    [('one', 'two'), ('two', 'three')]
    """
    said = words(text)
    return [tuple(said[at : at + n]) for at in range(len(said) - n + 1)]


def runs(text: str) -> frozenset[Gram]:
    """Its runs of REPEATED words; a shorter text is one run.

    >>> runs("Rain falls!")
    frozenset({('rain', 'falls')})
    """
    return frozenset(grams(text, REPEATED) or [tuple(words(text))])
