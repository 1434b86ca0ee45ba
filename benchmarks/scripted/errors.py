"""Name what the scripted engine refuses."""

from __future__ import annotations


class Refused(Exception):
    """What is asked cannot be served: 400."""
