"""What a reader takes for sentences and words in a reply: no code, no markup, no full stop that ends nothing."""

from __future__ import annotations

import re

FENCED = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
MARKER = re.compile(r"^[ \t]*(?:[-*+•‣◦▪●·–][ \t]+|\(?\d{1,3}[.)][ \t]+|\(?[A-Za-z][)][ \t]+)")
HEADING = re.compile(r"^[ \t]{0,3}#{1,6}(?:[ \t]+|$)")
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+|\b\S+@\S+\.\w+")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

CLOSERS = "\"'“”‘’«»‹›)]}*_」』"
ENDS = ".!?…。！？؟"

_LIKELY = (
    "jr vs etc cf approx no nr vol pp p.m a.m ca bzw usw u.a inc ltd co dept est min max sec hr hrs oz lb lbs ft tbsp "
    "tsp jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k u.s.a ph.d m.d b.c a.d al fig"
)
SHORT_FORMS = frozenset(_LIKELY.split())
"""Written with a full stop that ends no sentence where a small letter or a digit follows."""
_SURE = "mr mrs ms dr prof st sr e.g i.e eg ie mt gen col rev hon z.b d.h"
NEVER_LAST = frozenset(_SURE.split())
"""After these no sentence ends, whatever follows."""


def without_code(text: str) -> str:
    """`text` with fenced code taken out, and inline code as one word.

    >>> without_code("Call `a.b()` now.")
    'Call code now.'
    """
    return INLINE.sub("code", FENCED.sub("\n\n", text))


def sentences(text: str) -> list[str]:
    """The sentences of the prose in `text`.

    A sentence ends with . ! ? … (or 。！？؟) before a blank or the end, with quotes and brackets that close there; not
    behind an abbreviation, an initial or a list's number, nor inside a number, a name of a file or an address. Dots
    that trail off into a small letter end none, nor does a question that is quoted within a sentence. A blank line, a
    list item and a heading end one too, as does a line behind which the next begins with a capital letter.

    >>> sentences("Dr. Lee paid 3.50 at 5 p.m. for it. Was it “cheap?” No...")
    ['Dr. Lee paid 3.50 at 5 p.m. for it.', 'Was it “cheap?”', 'No...']
    >>> len(sentences("- one\\n- two"))
    2
    """
    found: list[str] = []
    for block in _blocks(without_code(text)):
        start = 0
        for end in _ends(block):
            found.append(block[start:end].strip())
            start = end
        found.append(block[start:].strip())
    return [each for each in found if any(letter.isalnum() for letter in each)]


def words(text: str) -> list[str]:
    """The words of the prose in `text`, without numbers.

    >>> words("It isn't a well-known 2nd `x`, see https://a.example/b.")
    ['It', "isn't", 'a', 'well', 'known', 'nd', 'code', 'see']
    """
    return WORD.findall(ADDRESS.sub(" ", without_code(text)))


def _blocks(text: str) -> list[str]:
    blocks: list[str] = [""]
    for line in text.splitlines():
        bare = line.strip()
        is_item, is_heading = MARKER.match(line), HEADING.match(line)
        starts = not bare or is_item or is_heading or (bare[:1].isupper() and blocks[-1])
        if starts:
            blocks.append("")
        bare = MARKER.sub("", bare) if is_item else HEADING.sub("", bare) if is_heading else bare
        blocks[-1] = f"{blocks[-1]} {bare}".strip()
        if is_heading:
            blocks.append("")
    return [block for block in blocks if block]


def _ends(block: str) -> list[int]:
    """Where a sentence ends in `block`, its last one left out."""
    found, at = [], 0
    while at < len(block):
        if block[at] not in ENDS:
            at += 1
            continue
        end = at
        while end < len(block) and block[end] in ENDS:
            end += 1
        signs = block[at:end]
        end = closed = _closed(block, end)
        is_wide = signs[-1] in "。！？"
        if end < len(block) and (is_wide or block[end].isspace()):
            is_quoted = closed > at + len(signs)
            if not _goes_on(block[:at], signs, block[end:].lstrip(), is_quoted=is_quoted):
                found.append(end)
        at = end
    return found


def _closed(block: str, end: int) -> int:
    """The place behind quotes and brackets that close at `end`; French ones stand behind a blank."""
    while end < len(block):
        if block[end] in CLOSERS:
            end += 1
        elif block[end].isspace() and block[end + 1 : end + 2] in ("»", "›") and not block[end + 2 : end + 3].isalnum():
            end += 2
        else:
            break
    return end


def _goes_on(before: str, signs: str, after: str, *, is_quoted: bool) -> bool:
    follows = after.lstrip("\"'“„‘«‹([*_¿¡")[:1]
    if signs in ("...", "…") or (is_quoted and signs != "."):
        return follows.islower()
    if signs != ".":
        return False
    *earlier, last = before.split() or [""]
    word = last.lstrip("\"'“„‘«‹([*_").casefold()
    if word in NEVER_LAST or (is_quoted and follows.islower()):
        return True
    if word in SHORT_FORMS:
        return follows.islower() or follows.isdigit()
    # An initial: one capital letter at the beginning or behind a capital one, "J. K. Rowling" and no "vitamin C."
    is_initial = len(word) == 1 and last[-1:].isupper() and word != "i"
    if is_initial and follows.isupper():
        return not earlier or earlier[-1].lstrip("\"'“„«(")[:1].isupper()
    return word.isdigit() and not earlier  # "1. Mix"
