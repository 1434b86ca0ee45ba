"""Find the words that speak of an earlier reply. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.utils.translation import ngettext

from judge.hints.wish_rules import load_rules
from judge.hints.wish_texts import masked, sentences_of


@dataclass(frozen=True)
class Reference:
    """Words that speak of an earlier reply: characters `start` up to and without `end`."""

    start: int
    end: int
    text: str


@lru_cache(maxsize=2048)
def find_references(text: str) -> tuple[Reference, ...]:
    """The words that speak of an earlier reply, in order and apart. Quoted words are none of them.

    >>> [one.text for one in find_references("Shorten the second point and send it again.")]
    ['Shorten the second point', 'send it again']
    >>> find_references("Write the whole reply as one paragraph."), find_references('Do not begin with "As before".')
    ((), ())
    """
    rules = load_rules()
    plain = masked(text)
    found: list[tuple[int, int]] = []
    for start, end in sentences_of(plain):
        start += len(plain[start:end]) - len(plain[start:end].lstrip(" \t\n\"'(*-•"))
        sentence = plain[start:end]  # alone, so that its beginning is one
        for pattern in (*rules.references, *rules.languages):
            found += [
                _trimmed(plain, start + match.start(), start + match.end()) for match in pattern.finditer(sentence)
            ]
        found += _pronouns(plain, start, end)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(one for one in found if one[0] < one[1]):
        if joined and not plain[joined[-1][1] : start].strip():  # they touch
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(Reference(start, end, text[start:end]) for start, end in joined)


def refusal(references: Sequence[Reference]) -> str:
    """Why words with these references cannot be a wish, in a sentence."""
    words = ", ".join(f"“{one.text}”" for one in references[:3])
    speaks = ngettext(
        "%(words)s speaks of an earlier reply. Say it so that it holds for every reply.",
        "%(words)s speak of an earlier reply. Say it so that it holds for every reply.",
        len(references),
    )
    return speaks % {"words": words}


def _trimmed(plain: str, start: int, end: int) -> tuple[int, int]:
    while start < end and not plain[start].isalnum():
        start += 1
    while end > start and not plain[end - 1].isalnum():
        end -= 1
    return start, end


def _pronouns(plain: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where "it" stands for a reply, and for nothing that the sentence names before; and where "was" tells of one."""
    rules = load_rules()
    found = []
    for words, excuse in ((rules.pronoun, rules.antecedent), (rules.past, rules.condition)):
        for match in words.finditer(plain, start, end):
            if not excuse.search(plain, start, match.start()):
                found.append(match.span())
    return found
