"""A language in which each message stands in brackets, so that a page shows what no translation reaches."""

from __future__ import annotations

import re

from django.utils.translation.trans_real import DjangoTranslation

CODE = "de"
"""Stands in for this one: `monkeypatch.setitem(trans_real._translations, CODE, Brackets(CODE))`."""

SILENT = re.compile(r"<(script|style|svg|code|kbd|pre|samp|textarea)\b.*?</\1>", re.DOTALL)
SAID = re.compile(r'\b(?:aria-label|title|placeholder|alt)="([^"]*)"')


class Brackets(DjangoTranslation):
    def gettext(self, message: str) -> str:
        return f"⟦{message.rpartition(chr(4))[2]}⟧"  # before that stands the context

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def bare(markup: str) -> set[str]:
    """The words of this markup that stand in no brackets; a message may hold tags, and another message."""
    spoken = SILENT.sub("", markup)
    pieces = [*re.split(r"<[^>]*>", spoken), *SAID.findall(spoken)]
    found, depth = set(), 0
    for piece in pieces:
        outside = ""
        for letter in piece:
            depth += (letter == "⟦") - (letter == "⟧")
            outside += letter if depth == 0 and letter != "⟧" else " "
        found |= set(re.findall(r"[^\W\d_]{2,}", outside))
    return found
