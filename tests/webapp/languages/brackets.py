"""A language in which each message stands in brackets, so that a page shows what no translation reaches."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from django.utils.translation.trans_real import DjangoTranslation

CODE = "de"
"""Stands in for this one: `monkeypatch.setitem(trans_real._translations, CODE, Brackets(CODE))`."""

SILENT = re.compile(r"<(script|style|svg|code|kbd|pre|samp|textarea)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"""(<(?:[^<>"']|"[^"]*"|'[^']*')*>)""")
IN_ENGLISH = re.compile(r"<(\w+)[^<>]*\blang=\"en\"[^<>]*>[^<]*</\1>")
"""What a page says to be English: the docs' own words."""
SAID = re.compile(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"')
WORD = re.compile(r"[^\W\d_]{2,}")


class Brackets(DjangoTranslation):
    def gettext(self, message: str) -> str:
        return f"⟦{message.rpartition(chr(4))[2]}⟧"  # before that stands the context

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def pieces(markup: str) -> Iterator[str]:
    """What stands in no brackets, piece by piece between tags, and in attributes; a message may hold tags, and another
    message."""
    depth = 0
    for piece in TAG.split(IN_ENGLISH.sub("", SILENT.sub("", markup))):
        if piece.startswith("<"):
            spoken = SAID.findall(piece) if depth == 0 else []
        else:
            spoken = [piece]
        for text in spoken:
            outside = ""
            for letter in html.unescape(text):
                depth += (letter == "⟦") - (letter == "⟧")
                outside += letter if depth == 0 and letter != "⟧" else " "
            if WORD.search(outside):
                yield " ".join(outside.split())


def bare(markup: str) -> set[str]:
    """The words of this markup that stand in no brackets."""
    return {word for piece in pieces(markup) for word in WORD.findall(piece)}
