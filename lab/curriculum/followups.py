"""A follow-up: what comes back after a reply, and what a judge should make of it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from lab.curriculum import phrasings
from lab.curriculum.phrasings import Change, Split
from lab.curriculum.tasks import filled


@dataclass(frozen=True)
class Followup:
    """A next state and its label."""

    text: str
    role: str  # user | tool | environment | test | person
    score: int | None
    """None: the person turned to something else, which says nothing of the reply."""
    kind: str
    hint: str = ""
    """What the judge is to propose; empty: nothing is asked for."""
    key: tuple[str, ...] = ()
    """Patterns that a hint must match, all of them, to name the change."""
    against: str = ""
    tone: str = "plain"
    language: str = "en"
    is_unseen: bool = False
    """A kind of change that never trained."""
    injection: str = ""


@cache
def kinds(name: str, split: Split) -> tuple[Change, ...]:
    """Kinds of change, or of failures of an action. A kind with too few lines for one of its own has none in dev."""
    tables = phrasings.read("changes") if name == "changes" else phrasings.read("tools")[name]
    return phrasings.changes(tables, split)


def draw_fillers(tables: dict[str, dict[str, list[str]]], split: Split, rng: random.Random) -> dict[str, str]:
    return {name: rng.choice(values) for name, values in phrasings.fillers(tables, split).items()}


def wanted_by(change: Change, slots: dict[str, str]) -> dict[str, Any]:
    escaped = {name: re.escape(value) for name, value in slots.items()}
    return {
        "hint": filled(change.hint, slots),
        "key": tuple(filled(pattern, escaped) for pattern in change.key),
        "against": change.against,
    }


def key_of(hint: str) -> tuple[str, ...]:
    """What a hint in a person's own words must hold to count as the same: its two longest words.

    >>> key_of("Use glasses, not litres.")
    ('glasses', 'litres')
    """
    words = sorted(set(re.findall(r"[^\W_]{3,}", hint)), key=lambda word: (-len(word), hint.index(word)))
    return tuple(re.escape(word) for word in words[:2])
