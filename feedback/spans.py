"""Combine marks on a reply: half-open ranges of characters with a sign, 1 good and -1 bad. Pure.

The form they are kept in is one for each colouring: in order, apart, and joined where two of a sign touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from django.utils.translation import gettext, ngettext

Span = tuple[int, int, int]
"""(start, end, sign): characters of the text from `start` up to, and without, `end`."""

MOST = 200
"""Marks that one person may set on one reply."""


def paint(spans: Iterable[Sequence[int]], length: int) -> list[Span]:
    """These marks as they are kept, set one after the other on a text of `length` characters: where two overlap the
    newest wins, and one of sign 0 wipes out. Raises ValueError, with a sentence, for what is no part of the text.

    >>> paint([(0, 5, 1), (3, 8, -1)], 10), paint([(0, 5, 1), (5, 8, 1), (2, 4, 0)], 10)
    ([(0, 3, 1), (3, 8, -1)], [(0, 2, 1), (4, 8, 1)])
    """
    signs = [0] * length
    for start, end, sign in spans:
        check_range(start, end, length)
        if sign not in (-1, 0, 1):
            raise ValueError(f"a mark is good (1) or bad (-1); this one is {sign}")
        signs[start:end] = [sign] * (end - start)
    kept = runs(signs)
    if len(kept) > MOST:
        raise ValueError(
            gettext("a reply may have at most %(most)d marks; these are %(given)d") % {"most": MOST, "given": len(kept)}
        )
    return kept


def agree(everyones: Iterable[Iterable[Sequence[int]]], length: int) -> list[Span]:
    """What the marks of several people come to: each character has the sign that most of them gave it, and none
    where they balance.

    >>> agree([[(0, 4, 1)], [(2, 6, -1)]], 6)
    [(0, 2, 1), (4, 6, -1)]
    """
    total = [0] * length
    for spans in everyones:
        for start, end, sign in spans:
            for at in range(start, min(end, length)):
                total[at] += sign
    return runs([(sum > 0) - (sum < 0) for sum in total])


def runs(signs: Sequence[int]) -> list[Span]:
    """The stretches of one sign, those without a sign left out.

    >>> runs([0, 1, 1, -1, 0])
    [(1, 3, 1), (3, 4, -1)]
    """
    found: list[Span] = []
    at = 0
    for sign, run in groupby(signs):
        end = at + len(list(run))
        if sign:
            found.append((at, end, sign))
        at = end
    return found


def check_range(start: int, end: int, length: int) -> tuple[int, int]:
    """The range, if it holds at least one character of the text. Raises ValueError, with a sentence, if not.

    >>> check_range(3, 3, 10)
    Traceback (most recent call last):
    ValueError: a mark has at least one character; this one goes from 3 to 3
    """
    if not 0 <= start < end:
        raise ValueError(
            gettext("a mark has at least one character; this one goes from %(start)d to %(end)d")
            % {"start": start, "end": end}
        )
    if end > length:
        raise ValueError(
            gettext("the reply has %(length)d characters; this mark ends at %(end)d") % {"length": length, "end": end}
        )
    return start, end


def find_quote(text: str, quote: str, occurrence: int = 1) -> tuple[int, int]:
    """Where the `occurrence`-th `quote` stands in `text`, counted from 1; overlapping ones count each. Raises
    ValueError, with a sentence.

    >>> find_quote("a rose is a rose", "rose", 2)
    (12, 16)
    """
    shown = quote if len(quote) <= 40 else quote[:40] + "…"
    if not quote:
        raise ValueError("a mark quotes at least one character of the reply")
    at, seen = -1, 0
    while (at := text.find(quote, at + 1)) >= 0:
        seen += 1
        if seen == occurrence:
            return at, at + len(quote)
    if not seen:
        raise ValueError(f"the reply does not say {shown!r}")
    times = ngettext("%d time", "%d times", seen) % seen
    raise ValueError(f"the reply says {shown!r} {times}, not {occurrence}")


def quote(text: str, spans: Iterable[Sequence[int]], sign: int) -> list[str]:
    """The marked words of one sign.

    >>> quote("Two and two", [(0, 3, 1), (8, 11, -1)], -1)
    ['two']
    """
    return [text[start:end] for start, end, one in spans if one == sign]


def sign_of(spans: Iterable[Sequence[int]]) -> int | None:
    """What marks come to in one number, for a reader that wants only one: of which sign there are more; None without
    any.

    >>> sign_of([(0, 3, 1), (8, 11, -1)]), sign_of([(0, 1, -1)]), sign_of([])
    (0, -1, None)
    """
    signs = [sign for _, _, sign in spans]
    return (sum(signs) > 0) - (sum(signs) < 0) if signs else None
