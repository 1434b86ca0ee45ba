"""One request, sorted: its session by name, main line or side, and the rule that said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chat.asking import Ask


@dataclass(frozen=True)
class Sorted:
    session: str = ""
    """What the client calls its session; empty: the messages must say."""
    named_by: str = ""
    """Where that name was found."""
    client: str = ""
    kind: str = "main"
    rule: str = ""
    """client/rule"""
    is_main: bool = True


def sort(ask: Ask) -> Sorted:
    side = ask.turn_type.lower() == "side"
    kind = "side" if side else "main"
    if ask.session_id:
        return Sorted(ask.session_id, "header", kind=kind, is_main=not side)
    if ask.user:
        return Sorted(f"user:{ask.user}", "user", kind=kind, is_main=not side)
    return Sorted(kind=kind, is_main=not side)
