"""Why, in a word: the tags that stand beside a thumb. A short list that everybody knows, and free ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable

KNOWN = ("wrong", "too long", "too short", "tone", "off topic", "unsafe", "format")
"""What the page offers under a thumb down."""

MOST = 12
"""Tags of one thumb."""

LONGEST = 40
"""Characters of one tag."""


def tidied(tags: Iterable[str]) -> list[str]:
    """The tags as they are kept: one line each, each once, known ones in their one spelling.

    Raises ValueError, with a sentence, for too many or too long ones.

    >>> tidied(["Too_long", "  my own\\nword ", "too long", ""])
    ['too long', 'my own word']
    """
    spelt = (" ".join(tag.split()) for tag in tags)
    kept = list(dict.fromkeys(known(tag) or tag for tag in spelt if tag))
    if len(kept) > MOST:
        raise ValueError(f"at most {MOST} tags; these are {len(kept)}")
    if long := next((tag for tag in kept if len(tag) > LONGEST), None):
        raise ValueError(f"a tag has at most {LONGEST} characters; {long[:LONGEST] + '…'!r} has {len(long)}")
    return kept


def offered(tags: Iterable[str]) -> list[str]:
    """What a page shows to choose from beside these tags: the known ones, then those of a person's own.

    >>> offered(["my own word", "tone"])[-2:]
    ['format', 'my own word']
    """
    return list(dict.fromkeys((*KNOWN, *tags)))


def known(tag: str) -> str:
    """The known tag that this is a spelling of; empty when there is none.

    >>> known("Off-Topic"), known("boring")
    ('off topic', '')
    """
    plain = " ".join(tag.lower().replace("_", " ").replace("-", " ").split())
    return plain if plain in KNOWN else ""
