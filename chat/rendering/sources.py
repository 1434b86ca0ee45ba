"""Map words on a rendered page to their places in the Markdown source.

The source is read twice, the second time with every letter and digit replaced by a character of its own, which says
where it stood. Both readings must come to the same page; then every letter's place is certain. Marks between two
letters are found there if they can only stand in one way. Nothing is guessed: what has no certain place has none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

Places = tuple[int | None, ...]
"""For each character that is shown its place in the source; None where it is not certain."""

PRIVATE = 0xF0000
"""The first of the characters that stand for a place: Unicode leaves this plane and the next to programs."""
ROOM = 0x1FFFE

SYNTAX = re.compile(
    r"^[ \t>*+-]*\d+[.)]"  # a list's number
    r"|^[ \t>]*\[[^\]\n]*\]:.*$"  # a definition of a link
    r"|^[ \t>*+-]*(?:\d+[.)][ \t]+)?(?:```|~~~).*$"  # a fence, with its language
    r"|\]\([^)\n]{0,2000}\)"  # where a link leads to: a bound, for many may begin where none ends
    r"|<[^<>\s]*>"  # an address
    r"|&#?\w+;",  # a character by its name
    re.MULTILINE,
)
"""Letters that mean something to the parser."""

BRACKETS = re.compile(rf"\[[^\]]{{0,999}}\]|{SYNTAX.pattern}", re.MULTILINE)
"""The same where links are named elsewhere: their names, of up to 999 characters, must not change."""


def places(text: str, tokens: Sequence[Token], parser: MarkdownIt) -> list[Places]:
    """For each of the parser's `tokens` of `text` that shows words, in order, the place of each of its characters."""
    contents = [token.content for token in word_tokens(tokens)]
    readings = (_read(text, tokens, parser, syntax) for syntax in (SYNTAX, BRACKETS))
    known = next((read for read in readings if read is not None), None)
    found = settle_places("".join(contents), known or [None] * sum(map(len, contents)), text)
    ends = [0, *accumulate(map(len, contents))]
    return [tuple(found[start:end]) for start, end in pairwise(ends)]


def _read(text: str, tokens: Sequence[Token], parser: MarkdownIt, syntax: re.Pattern[str]) -> list[int | None] | None:
    """The place of every letter and digit that is shown; None where replacing them changes the page."""
    if len(text) > ROOM or any(ord(c) >= PRIVATE for c in text):
        return None
    kept = {at for match in syntax.finditer(text) for at in range(*match.span())}
    twin = "".join(chr(PRIVATE + at) if at not in kept and is_letter(c) else c for at, c in enumerate(text))

    def back(content: str) -> str:
        return "".join(text[ord(c) - PRIVATE] if ord(c) >= PRIVATE else c for c in content)

    read = parser.parse(twin)
    if [shape(token, back) for token in flat(read)] != [shape(token, str) for token in flat(tokens)]:
        return None
    return [ord(c) - PRIVATE if ord(c) >= PRIVATE else None for token in word_tokens(read) for c in token.content]


def settle_places(shown: str, known: Sequence[int | None], text: str) -> list[int | None]:
    """The places, with those of other characters where they can stand in one way only between what is known."""
    found = list(known)
    before, start = -1, 0
    for at, place in enumerate([*known, len(text)]):
        if place is None:
            continue
        gap = range(start, at)
        first, last = _embedded(shown, gap, text, before, place), _embedded_back(shown, gap, text, before, place)
        if first is not None and last is not None:
            for n in gap:
                found[n] = first[n] if first[n] == last[n] else None
        before, start = place, at + 1
    return found


def _embedded(shown: str, gap: range, text: str, low: int, high: int) -> dict[int, int] | None:
    """The gap's characters in `text` between two places, each as early as it can be; None if they are not there."""
    at: dict[int, int] = {}
    for n in gap:
        low = text.find(shown[n], low + 1, high)
        if low < 0:
            return None
        at[n] = low
    return at


def _embedded_back(shown: str, gap: range, text: str, low: int, high: int) -> dict[int, int] | None:
    """The same, each as late as it can be."""
    at: dict[int, int] = {}
    for n in reversed(gap):
        high = text.rfind(shown[n], low + 1, high)
        if high < 0:
            return None
        at[n] = high
    return at


def word_tokens(tokens: Sequence[Token]) -> list[Token]:
    """The tokens that show words, in order."""
    return [token for token in flat(tokens) if token.type in ("text", "code_inline", "code_block", "fence")]


def flat(tokens: Sequence[Token]) -> list[Token]:
    """The tokens of the page, of lines as well; not what an image says instead of itself, which is not shown."""
    return [one for token in tokens for one in (token, *(token.children or () if token.type == "inline" else ()))]


def shape(token: Token, read: Callable[[str], str]) -> tuple[object, ...]:
    """What a token makes of the page, but for where a link leads."""
    return (token.type, token.tag, token.nesting, token.hidden, token.markup, read(token.content))


def is_letter(character: str) -> bool:
    """A letter, a mark on one, or a digit: to a parser of Markdown one is as good as another, in its place."""
    return unicodedata.category(character)[0] in "LMN"
