"""What can be counted in replies, to tell a style from a collapse. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

Ids = Sequence[int]


def repeated(ids: Ids, n: int = 4) -> float:
    """The share of n-grams that the reply has said before: 0 for none, towards 1 for a loop.

    >>> repeated([1, 2, 3, 4, 5]), repeated([1, 2, 1, 2, 1, 2], n=2)
    (0.0, 0.6)
    """
    grams = [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def grams(ids: Ids, n: int) -> set[tuple[int, ...]]:
    """All runs of n tokens.

    >>> sorted(grams([1, 2, 3], 2))
    [(1, 2), (2, 3)]
    """
    return {tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)}


def copied(ids: Ids, known: Collection[tuple[int, ...]], n: int) -> float:
    """The share of its n-grams that are known; 0 for a reply too short to have one.

    >>> copied([1, 2, 3, 9], {(1, 2), (2, 3)}, 2)
    0.6666666666666666
    """
    said = [tuple(ids[at : at + n]) for at in range(len(ids) - n + 1)]
    return sum(gram in known for gram in said) / len(said) if said else 0.0


def variety(texts: Sequence[str]) -> float:
    """How many different replies there are, as a share: a policy that answers everything alike comes near 0.

    >>> variety(["Yes.", "yes", "No.", "It depends."])
    0.75
    """
    if not texts:
        raise ValueError("no replies, no variety")
    return len({" ".join(re.findall(r"\w+", text.casefold())) for text in texts}) / len(texts)


def is_empty(text: str) -> bool:
    """True for a reply without a word in it."""
    return not re.search(r"\w", text)


WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|\w+(?:['’-]\w+)*")
"""A word of a language that parts its words; of Chinese and Japanese, which do not, a character."""


def words(text: str) -> int:
    """How many words a text has.

    >>> words("It isn't far: 3 well-known miles."), words("天は青い。")
    (6, 4)
    """
    return len(WORDS.findall(text))
