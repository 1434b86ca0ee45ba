"""Stamps name the weights that an answer is of. Pure."""

from __future__ import annotations

FULL = "full:"
"""How names of full weights begin. A server puts the name of what it serves on each answer: a caller that asks for
weights by such a name, or for the base or an adapter on it, takes no answer with another stamp."""

BASE = "base"
"""The stamp of the base once it is back in place of full weights."""


def weights_in(name: str) -> str:
    """Return the full weights that a name or a stamp speaks of; empty for the base and for adapters on it.

    >>> weights_in("full:talkback-3-0a1b2c3d"), weights_in("talkback-2-0a1b2c3d"), weights_in("default")
    ('full:talkback-3-0a1b2c3d', '', '')
    """
    return name if name.startswith(FULL) else ""
