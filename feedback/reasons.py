"""Tidy reason tags, the words beside a thumb: a short known list, and free ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext, pgettext_lazy

KNOWN = ("wrong", "too long", "too short", "tone", "off topic", "unsafe", "format")
"""What the page offers under a thumb down."""

PRAISED = ("right", "clear", "right length", "tone", "format")
"""What it offers under a thumb up."""

MOST = 12
"""Tags of one thumb."""

LONGEST = 40
"""Characters of one tag."""

SHOWN: dict[str, Any] = {
    "wrong": pgettext_lazy("a reply", "wrong"),
    "too long": pgettext_lazy("a reply", "too long"),
    "too short": pgettext_lazy("a reply", "too short"),
    "tone": pgettext_lazy("a reply", "tone"),
    "off topic": pgettext_lazy("a reply", "off topic"),
    "unsafe": pgettext_lazy("a reply", "unsafe"),
    "format": pgettext_lazy("a reply", "format"),
    "right": pgettext_lazy("a reply", "right"),
    "clear": pgettext_lazy("a reply", "clear"),
    "right length": pgettext_lazy("a reply", "right length"),
}
"""The known ones in the reader's language; they are kept in English."""


class Tag(str):
    """A tag as it is kept, that knows how a page shows it."""

    __slots__ = ()

    @property
    def shown(self) -> str:
        """A known one in the reader's language; one of a person's own as it is."""
        return str(SHOWN.get(self, self))


def tidy_tags(tags: Iterable[str]) -> list[str]:
    """The tags as they are kept: one line each, each once, known ones in their one spelling.

    Raises ValueError, with a sentence, for too many or too long ones.

    >>> tidy_tags(["Too_long", "  my own\\nword ", "too long", ""])
    ['too long', 'my own word']
    """
    spelt = (" ".join(tag.split()) for tag in tags)
    kept = list(dict.fromkeys(known_tag(tag) or tag for tag in spelt if tag))
    if len(kept) > MOST:
        raise ValueError(gettext("at most %(most)d tags; these are %(given)d") % {"most": MOST, "given": len(kept)})
    if long := next((tag for tag in kept if len(tag) > LONGEST), None):
        raise ValueError(
            gettext("a tag has at most %(most)d characters; %(tag)r has %(given)d")
            % {"most": LONGEST, "tag": long[:LONGEST] + "…", "given": len(long)}
        )
    return kept


def list_tags(tags: Iterable[str], thumb: int = -1) -> list[str]:
    """What a page shows to choose from beside a thumb with these tags, each a Tag: the known ones, then a person's own.

    >>> list_tags(["my own word", "tone"])[-2:], list_tags([], 1)[0]
    (['format', 'my own word'], 'right')
    """
    return [Tag(tag) for tag in dict.fromkeys((*(PRAISED if thumb > 0 else KNOWN), *tags))]


def known_tag(tag: str) -> str:
    """The known tag that this is a spelling of; empty when there is none.

    >>> known_tag("Off-Topic"), known_tag("boring")
    ('off topic', '')
    """
    plain = " ".join(tag.lower().replace("_", " ").replace("-", " ").split())
    return plain if plain in KNOWN or plain in PRAISED else ""
