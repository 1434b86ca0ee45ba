"""Make what a person typed comparable: quotations blanked out, contractions written out, sentences apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

QUOTED = re.compile(
    r"\"[^\"\n]*\"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|(?<!\w)‘[^’\n]*’(?!\w)|(?<!\w)'[^'\n]+'(?!\w)|`[^`\n]+`"
)


def masked(text: str) -> str:
    """The text with each quotation blanked out and curly apostrophes straight; every character keeps its place."""
    plain = text.replace("’", "'")
    return QUOTED.sub(lambda match: "\x00" * len(match[0]), plain)


def sentences_of(plain: str) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends, its last sign included."""
    start = 0
    for match in re.finditer(r"[.!?…]+(?=\s|$|\))|\n+|;\s|\s[-–—]+\s|—", plain):
        yield start, match.end()
        start = match.end()
    if start < len(plain):
        yield start, len(plain)


def normal(text: str) -> str:
    """Lower case, apostrophes straight, contractions written out, runs of blanks as one, no stops at the ends.

    >>> normal("  That’s  too long — don't!")
    'that is too long — do not'
    """
    text = text.replace("’", "'").casefold()
    text = re.sub(r"\b(do|does|did)nt\b", r"\1n't", text)  # as it is typed in a hurry
    text = re.sub(r"\b(ca|wo|sha)n't\b", lambda m: {"ca": "can", "wo": "will", "sha": "shall"}[m[1]] + " not", text)
    text = re.sub(r"\b(do|does|did|is|are|was|were|should|would|could|must|need|has|have|had)n't\b", r"\1 not", text)
    text = re.sub(r"\b(it|that|there|what|here|where|who)'s\b", r"\1 is", text)
    text = re.sub(r"\b(i|you|we|they|it|that)'d\b", r"\1 would", text)
    text = re.sub(r"\b(\w+)'ve\b", r"\1 have", text)
    text = re.sub(r"\b(\w+)'re\b", r"\1 are", text)
    text = re.sub(r"\b(\w+)'ll\b", r"\1 will", text)
    text = re.sub(r"\bi'm\b", "i am", text)
    text = re.sub(r"\blet's\b", "let us", text)
    text = re.sub(r"\bcannot\b", "can not", text)
    text = re.sub(r"\b(can|could|would|will) not (you|we|i)\b", r"\1 \2", text)
    text = text.replace("“", '"').replace("”", '"')
    text = re.sub(r"\s+", " ", text)
    return text.strip(" .!?…,;:()-–—")
