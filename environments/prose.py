"""What a reader takes for sentences and words in a reply: no code, no markup, no full stop that ends nothing."""

from __future__ import annotations

import re

FENCED = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
MARKER = re.compile(r"^[ \t]*(?:[-*+•‣◦▪●·–][ \t]+|\(?\d{1,3}[.)][ \t]+|\(?[A-Za-z][)][ \t]+)")
HEADING = re.compile(r"^[ \t]{0,3}#{1,6}(?:[ \t]+|$)")
ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+|\b\S+@\S+\.\w+")
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

CLOSERS = "\"'”’»)]}*_›」』"
ENDS = ".!?…。！？؟"

_SHORT = (
    "mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie cf approx no nr fig vol pp p.m a.m p a ca z.b d.h bzw usw u.a "
    "inc ltd co dept est min max sec hr hrs oz lb lbs ft tbsp tsp jan feb mar apr jun jul aug sep sept oct nov dec "
    "u.s u.k u.s.a ph.d m.d b.c a.d mt gen col rev hon al"
)
SHORT_FORMS = frozenset(_SHORT.split())
"""Written with a full stop that ends no sentence when more follows in lower case, or a name does."""
_FORE = "mr mrs ms dr prof st e.g i.e eg ie cf fig vol approx mt gen col rev hon vs z.b d.h no nr"
NEVER_LAST = frozenset(_FORE.split())
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
    behind an abbreviation, an initial or a list's number, nor inside a number, a name of a file or an address. A blank
    line, a list item and a heading end one too, as does a line that goes on with a capital letter.

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
    """Where a sentence ends in `block`, its own last sentence left out."""
    found, at = [], 0
    while at < len(block):
        if block[at] not in ENDS:
            at += 1
            continue
        end = at
        while end < len(block) and block[end] in ENDS:
            end += 1
        signs = block[at:end]
        while end < len(block) and block[end] in CLOSERS:
            end += 1
        wide = block[end - 1] in "。！？"
        if end < len(block) and (wide or block[end].isspace()) and not _goes_on(block, at, signs, end):
            found.append(end)
        at = end
    return found


def _goes_on(block: str, at: int, signs: str, end: int) -> bool:
    after = block[end:].lstrip()
    opened = after.lstrip("\"'“„‘«‹([*_¿¡")
    if signs in ("...", "…"):
        return opened[:1].islower()
    if signs != ".":
        return opened[:1].islower()  # “Why?” he asked.
    before = re.split(r"[\s(\[\"'“„«]", block[:at])[-1].casefold()
    if before in NEVER_LAST or (len(before) == 1 and before.isalpha() and before != "i"):
        return True
    if before in SHORT_FORMS:
        return opened[:1].islower() or opened[:1].isdigit()
    return opened[:1].islower()
