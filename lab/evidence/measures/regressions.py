"""What a lesson may have cost, counted in the replies themselves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from environments.grams import REPEATED, Gram, grams, words

COPIED = 6
"""Words in a row that count as copied; of shorter ones every two texts share some."""


def repetition(text: str, n: int = REPEATED) -> float:
    """The share of n-grams that were said before in the same reply: 0 for none, towards 1 for a loop.

    >>> repetition("a b a b a b", n=2), repetition("I see.")
    (0.6, 0.0)
    """
    said = grams(text, n)
    return 1 - len(set(said)) / len(said) if said else 0.0


def known(texts: Collection[str], n: int = COPIED) -> frozenset[Gram]:
    """What could be copied from these: all that people said, and all that was trained on."""
    return frozenset(gram for text in texts for gram in grams(text, n))


def copied(text: str, from_: Collection[Gram], n: int = COPIED) -> float:
    """The share of its n-grams that are known; 0 for a reply too short to have one.

    >>> copied("a b c d", known(["x b c d y"], 2), 2)
    0.6666666666666666
    """
    said = grams(text, n)
    return sum(gram in from_ for gram in said) / len(said) if said else 0.0


def variety(texts: Sequence[str]) -> float:
    """How many different replies there are, as a share: a policy that answers everything alike comes near 0.

    >>> variety(["Yes.", "yes", "No.", "It depends."])
    0.75
    """
    if not texts:
        raise ValueError("no replies, no variety")
    return len({tuple(words(text)) for text in texts}) / len(texts)


def distinct(texts: Sequence[str], n: int = 2) -> float:
    """Different n-grams over all n-grams of all the replies (distinct-2, Li et al. 2016, arXiv:1510.03055). It falls
    with the number of words whatever they are, so it is compared between equally many words: see `alike`.

    >>> distinct(["a b c", "a b d"])
    0.75
    """
    every = [gram for text in texts for gram in grams(text, n)]
    return len(set(every)) / len(every) if every else 0.0


def alike(texts: Sequence[str], others: Sequence[str]) -> tuple[float, float]:
    """distinct-2 of both, each reply cut to as many words as the shorter of the two to the same prompt has: what is
    left of a difference in variety once length is none.

    >>> alike(["a b a b"], ["c d e"])
    (1.0, 1.0)
    """
    pairs = [(words(one), words(other)) for one, other in zip(texts, others, strict=True)]
    cut = [(one[:size], other[:size]) for one, other in pairs for size in [min(len(one), len(other))]]
    ours, theirs = ([" ".join(said) for said in side] for side in zip(*cut, strict=True)) if cut else ([], [])
    return distinct(ours), distinct(theirs)
