"""Which hints say the same: those whose words are equal, case, blanks and end marks aside.

What is not surely equal is never alike: a wrong merge teaches a person's turn the wrong words, a missed one only costs
a reviewer a second look. Where nothing is taught by it, wishes are compared by the matters that judge.hints.wish_words
knows: two are of a kind, or the opposite of each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from judge.hints import hint_words, wish_words


def plain(text: str) -> str:
    """The words by which hints are compared. Commas, signs and numbers stay: "No, lists" is not "No lists".

    >>> plain("  Don’t  use C++. "), plain("Use C!")
    ("don't use c++", 'use c')
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("‘", "'")
    return " ".join(text.split()).rstrip(" .!…")


def alike(one: str, other: str) -> bool:
    """True when both say the same in the same words.

    >>> alike("Keep it short.", "keep it short!"), alike("Keep it short.", "Use fewer words.")
    (True, False)
    """
    return one == other or (bool(plain(one)) and plain(one) == plain(other))


def of_a_kind(one: str, other: str) -> bool:
    """True when both say the same, or want the same of known matters and name no other.

    >>> of_a_kind("Keep it short.", "Use fewer words."), of_a_kind("Keep it short.", "Keep it short and formal.")
    (True, False)
    """
    matters = wish_words.find_matters(hint_words.guidance_in(one))
    return alike(one, other) or (bool(matters) and matters == wish_words.find_matters(hint_words.guidance_in(other)))


def opposed(one: str, other: str) -> bool:
    """True when both want opposite things of a known matter; a rewrite says nothing of other replies.

    >>> opposed("No lists, please.", "Use bullet points."), opposed("Answer in German.", "Answer in French.")
    (True, False)
    """
    said, others = hint_words.guidance_in(one), hint_words.guidance_in(other)
    return not alike(said, others) and wish_words.are_opposed(said, others)


def conflicts(hint: str, standing: Iterable[tuple[int, str]]) -> list[dict[str, object]]:
    """A sentence for each of these hints (number, words) that asks for the opposite, as `Hint.conflicts` keeps them."""
    return [
        {"hint": pk, "sentence": f"It asks for the opposite of “{shortened(words)}”."}
        for pk, words in standing
        if opposed(hint, words)
    ]


def groups(texts: Sequence[str]) -> list[list[int]]:
    """The places of texts that say the same, each group in order, in the order of its first. Every text is in one.

    >>> groups(["Be brief.", "No emojis!", "be brief"])
    [[0, 2], [1]]
    """
    found: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        found.setdefault(plain(text) or text, []).append(place)
    return list(found.values())


def shortened(words: str, most: int = 80) -> str:
    line = " ".join(words.split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + "…"
