"""Tidy reason tags, the words beside a thumb: a short known list, and free ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable

KNOWN = ("wrong", "too long", "too short", "tone", "off topic", "unsafe", "format")
"""What the page offers under a thumb down."""

PRAISED = ("right", "clear", "right length", "tone", "format")
"""What it offers under a thumb up."""

MOST = 12
"""Tags of one thumb."""

LONGEST = 40
"""Characters of one tag."""


def tidy_tags(tags: Iterable[str]) -> list[str]:
    """The tags as they are kept: one line each, each once, known ones in their one spelling.

    Raises ValueError, with a sentence, for too many or too long ones.

    >>> tidy_tags(["Too_long", "  my own\\nword ", "too long", ""])
    ['too long', 'my own word']
    """
    spelt = (" ".join(tag.split()) for tag in tags)
    kept = list(dict.fromkeys(known_tag(tag) or tag for tag in spelt if tag))
    if len(kept) > MOST:
        raise ValueError(f"at most {MOST} tags; these are {len(kept)}")
    if long := next((tag for tag in kept if len(tag) > LONGEST), None):
        raise ValueError(f"a tag has at most {LONGEST} characters; {long[:LONGEST] + '…'!r} has {len(long)}")
    return kept


def list_tags(tags: Iterable[str], thumb: int = -1) -> list[str]:
    """What a page shows to choose from beside a thumb with these tags: the known ones, then those of a person's own.

    >>> list_tags(["my own word", "tone"])[-2:], list_tags([], 1)[0]
    (['format', 'my own word'], 'right')
    """
    return list(dict.fromkeys((*(PRAISED if thumb > 0 else KNOWN), *tags)))


def known_tag(tag: str) -> str:
    """The known tag that this is a spelling of; empty when there is none.

    >>> known_tag("Off-Topic"), known_tag("boring")
    ('off topic', '')
    """
    plain = " ".join(tag.lower().replace("_", " ").replace("-", " ").split())
    return plain if plain in KNOWN or plain in PRAISED else ""
