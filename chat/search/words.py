"""Cut text into the words that are looked for, and mark them in an excerpt. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

LONGEST_TEXT = 20_000
"""Characters of one side of a turn that can be found: what stands further back is in the chat alone."""

LONGEST_WORD = 60
MOST_ASKED = 12
"""Words of one query; further ones are not looked at."""

EXCERPT = 180
"""Characters of an excerpt, about."""

WORD = re.compile(r"[^\W_]+")

ALONE = re.compile("[\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
"""Signs of scripts that put no blank between words: each is a word of its own."""


@dataclass(frozen=True)
class Piece:
    """A stretch of an excerpt, and whether it is one of the words that were looked for."""

    text: str
    is_match: bool


@lru_cache(maxsize=4096)
def fold(word: str) -> str:
    """A word as it is compared: without accents, in one case.

    >>> fold("Café"), fold("STRASSE"), fold("Straße")
    ('cafe', 'strasse', 'strasse')
    """
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(sign for sign in plain if not unicodedata.combining(sign))[:LONGEST_WORD]


def cut(text: str) -> list[str]:
    """The words of a text, folded, in order.

    >>> cut("Don't rain_on 東京!")
    ['don', 't', 'rain', 'on', '東', '京']
    """
    return [word for found in WORD.findall(text) for word in _split(fold(found))]


def index_words(*texts: str) -> str:
    """Each word of these texts once, with blanks between, as the index takes them.

    >>> index_words("To be, or not to be", "be")
    'be not or to'
    """
    return " ".join(sorted({word for text in texts for word in cut(text[:LONGEST_TEXT])}))


def read_query(text: str) -> list[str]:
    """The words that a person looks for; of the last one, the beginning is enough, from two letters on.

    >>> read_query('  "rain" AND po*  ')
    ['rain', 'and', 'po']
    """
    return list(dict.fromkeys(cut(text[:500])))[:MOST_ASKED]


def excerpt(text: str, wanted: Sequence[str]) -> list[Piece]:
    """A part of `text` around the first of the `wanted` words in it, with all of them marked.

    >>> [(one.text, one.is_match) for one in excerpt("A Café in the rain", ["cafe", "ra"])]
    [('A ', False), ('Café', True), (' in the ', False), ('rain', True)]
    """
    text = " ".join(text[:LONGEST_TEXT].split())
    found = [one for one in WORD.finditer(text) if _is_wanted(one[0], wanted)]
    start = max(0, found[0].start() - EXCERPT // 3) if found else 0
    start = text.rfind(" ", 0, start) + 1 if start else 0
    end = min(len(text), start + EXCERPT)
    pieces, at = [Piece("… ", is_match=False)] if start else [], start
    for one in found:
        if one.end() > end:
            break
        pieces += [Piece(text[at : one.start()], is_match=False), Piece(one[0], is_match=True)]
        at = one.end()
    pieces.append(Piece(text[at:end] + (" …" if end < len(text) else ""), is_match=False))
    return [piece for piece in pieces if piece.text]


def matches(text: str, wanted: Sequence[str]) -> bool:
    """Whether one of the wanted words is in this text."""
    return any(_is_wanted(one[0], wanted) for one in WORD.finditer(text[:LONGEST_TEXT]))


def _is_wanted(word: str, wanted: Sequence[str]) -> bool:
    *whole, begun = wanted
    return any(
        one in whole or (one.startswith(begun) if len(begun) > 1 else one == begun) for one in _split(fold(word))
    )


def _split(word: str) -> list[str]:
    """Folding may leave what is no word: of ½ it makes 1⁄2."""
    return WORD.findall(ALONE.sub(lambda sign: f" {sign[0]} ", word))
