"""Turn what a person says of one reply into a wish that holds for every reply. Pure.

People write to the reply before them: "Merge the paragraphs into one and send it again". A teacher that is shown this
speaks of an earlier reply where there was none (judge/hints/back_references.py). `word_wish` says the same as a wish
("Write the whole reply as one paragraph."), and where it finds no safe wording, the person is asked.

A text is taken apart into clauses (judge/hints/wish_clauses.py). One that says nothing of the wish goes ("send it
again"); one that is a wish stays in the person's words; one that names a known matter becomes that matter's wish, for
it or against it; one that names something of its own becomes a wish for that ("You forgot the units": "Include the
units."). All words for this are data: judge/hints/wish_words.toml.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from judge.hints.back_references import find_references
from judge.hints.wish_amounts import unit_of
from judge.hints.wish_clauses import bared, clause_wishes, is_contrary, known_wishes
from judge.hints.wish_rules import load_rules
from judge.hints.wish_texts import masked, normal, sentences_of

LONGEST_SAID = 1500
"""Characters of what is turned into a wish; longer words that speak of an earlier reply are a person's to put right."""

SHORT = "Keep the reply short."


@dataclass(frozen=True)
class Wish:
    """What a person wants of every reply."""

    text: str
    """What is taught."""
    is_verbatim: bool
    """True where these are the person's own words."""


@lru_cache(maxsize=2048)
def word_wish(text: str) -> Wish | None:
    """The wish that these words come to; None where no safe wording is found, and the person is to be asked.

    >>> word_wish("Use metric units.")
    Wish(text='Use metric units.', is_verbatim=True)
    >>> word_wish("That's three paragraphs. One will do.").text
    'Write the whole reply as one paragraph.'
    >>> word_wish("Redo the second point.") is None
    True
    """
    said = text.strip()
    if not said:
        return None
    if not find_references(said):
        return Wish(said, True)
    turned = _turned(said)
    if turned.is_whole and turned.wishes and not find_references(wish := " ".join(turned.wishes)):
        return Wish(wish, False)
    return None


def suggest_wish(text: str) -> str:
    """The best try at a wish, for a person to put right: what was understood of these words, else the words."""
    found = word_wish(text)
    if found is not None:
        return found.text
    wishes = " ".join(_turned(text.strip()).wishes)
    return wishes if wishes and not find_references(wishes) else " ".join(text.split())


@dataclass(frozen=True)
class Turned:
    """The wishes that were found, and whether nothing that asks for something was left out."""

    wishes: tuple[str, ...]
    is_whole: bool


def _turned(said: str) -> Turned:
    if len(said) > LONGEST_SAID:
        return Turned((), False)
    plain = masked(said)
    unit = unit_of(plain)
    wishes: list[str] = []
    is_whole = not any(pattern.search(plain) for pattern in load_rules().languages)
    for start, end in sentences_of(plain):
        sentence = said[start:end].strip()
        if not re.search(r"\w", sentence):
            continue
        found, whole = _sentence(sentence, unit)
        is_whole = is_whole and whole
        wishes += [wish for wish in found if wish not in wishes]
    for own in [wish for wish in wishes if wish not in canonical()]:  # the person's own words for it come first
        said_so = known_wishes(normal(own), bared(normal(own)), own) or []
        wishes = [wish for wish in wishes if wish not in said_so or wish == own]
    return Turned(tuple(_without_weaker(wishes)), is_whole and not is_contrary(wishes))


@lru_cache(maxsize=1)
def canonical() -> frozenset[str]:
    """The wishes for known matters, in our words."""
    return frozenset(wish for one in load_rules().concepts for wish in (one.want, one.avoid, one.always) if wish)


@lru_cache(maxsize=4096)
def find_matters(text: str) -> frozenset[str]:
    """What a text asks for of the known matters, in our words; empty where it names none of them.

    >>> sorted(find_matters("No bullet points, please!"))
    ['Write running text without lists.']
    """
    found: set[str] = set()
    for wish in _turned(text).wishes:
        found |= {wish} if wish in canonical() else set(known_wishes(normal(wish), bared(normal(wish)), wish) or ())
    return frozenset(found)


def are_opposed(one: str, other: str) -> bool:
    """True where two wishes ask for opposite things of a known matter.

    >>> are_opposed("No lists, please.", "Use bullet points."), are_opposed("No lists, please.", "Be brief.")
    (True, False)
    """
    return any(frozenset((here, there)) in _contraries() for here in find_matters(one) for there in find_matters(other))


@lru_cache(maxsize=1)
def _contraries() -> frozenset[frozenset[str]]:
    own = (frozenset((one.want, one.avoid)) for one in load_rules().concepts if one.want and one.avoid)
    return frozenset((*load_rules().contrary, *own))


def _sentence(sentence: str, unit: str) -> tuple[list[str], bool]:
    """The wishes of one sentence, the longest parts that are understood first; and whether all that asks was."""
    parts = _parted(sentence)
    wishes: list[str] = []
    is_whole, at = True, 0
    while at < len(parts):
        for to in range(len(parts), at, -1):
            clause = sentence[parts[at][0] : parts[to - 1][1]]
            found = clause_wishes(clause, unit, is_first=at == 0)
            if found is not None:
                wishes += found
                at = to
                break
        else:
            if _asks(sentence[parts[at][0] : parts[at][1]]):
                is_whole = False
            at += 1
    return wishes, is_whole


def _parted(sentence: str) -> list[tuple[int, int]]:
    plain = masked(sentence)
    parts, start = [], 0
    for match in load_rules().joints.finditer(plain):
        if match.start() > start:
            parts.append((start, match.start()))
        start = match.end()
    if start < len(sentence):
        parts.append((start, len(sentence)))
    return [(start, end) for start, end in parts if re.search(r"\w", sentence[start:end])]


def _asks(clause: str) -> bool:
    """True where a clause asks for something, so that it cannot go unheard."""
    return load_rules().directive.search(normal(clause)) is not None


def _without_weaker(wishes: Sequence[str]) -> list[str]:
    """The wishes without "short" where one says how short."""
    says_how = any(re.match(r"Answer in .*(?:sentence|word|line)", wish) for wish in wishes)
    return [wish for wish in wishes if not (says_how and wish == SHORT)]
