"""Say in words how an attempt ended, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from episodes.models import Episode
from webapp.charts.frame import short
from webapp.console.board import counted

Ending = Episode.Ending

WORDS = {
    "": "playing",
    Ending.SOLVED: "solved",
    Ending.FAILED: "failed",
    Ending.TRUNCATED: "cut off",
    Ending.GAVE_UP: "gave up",
    Ending.INFRA_ERROR: "the world failed",
    Ending.CANCELLED: "called off",
}
"""Each ending as pages name it."""

TONES = {
    "": "active",
    Ending.SOLVED: "good",
    Ending.FAILED: "bad",
    Ending.GAVE_UP: "bad",
    Ending.TRUNCATED: "warn",
    Ending.INFRA_ERROR: "warn",
}

LOST = (Ending.FAILED, Ending.TRUNCATED, Ending.GAVE_UP)
"""Endings that say that the agent did not do it."""


def why(episode: Episode, replies: int | None = None) -> str:
    """Why an attempt ended as it did, as a sentence; `replies` is how many it had, None where that is not known.

    >>> why(Episode(ending="failed", outcome=-1.0, checks={"right": False, "prices known": 1.0}))
    'Its answer was wrong: check “right” is false.'
    >>> why(Episode(ending="truncated", cut_by="horizon", checks={"prices known": 0.5}), 8)
    'Cut off at 8 replies, before it had an answer: check “prices known” is 0.5.'
    >>> why(Episode(ending="failed", outcome=-0.25))
    'Its outcome was −0.25, and its world named no check.'
    """
    found = _checks(episode.checks)
    because = f": {found}" if found else ""
    if episode.ending == Ending.TRUNCATED:
        at = f"at {counted(replies, 'reply')}" if replies else "at its last reply"
        if episode.cut_by == Episode.Cut.CONTEXT:
            return f"The model’s window was full {at}: it says nothing of the agent, and does not count."
        return f"Cut off {at}, before it had an answer{because}."
    if episode.ending == Ending.GAVE_UP:
        return f"The agent gave up{because}."
    if episode.ending == Ending.FAILED:
        if found:
            return f"Its answer was wrong: {found}."
        return f"Its outcome was {short(episode.outcome or 0)}, and its world named no check."
    if episode.ending == Ending.INFRA_ERROR:
        return episode.reason or "The world failed, not the agent, as its player said: it has no outcome."
    if episode.ending == Ending.CANCELLED:
        return episode.reason or "Its player called it off: it has no outcome."
    if episode.ending == Ending.SOLVED:
        return "Solved." if episode.outcome == 1 else f"Solved, with an outcome of {short(episode.outcome or 0)}."
    return "It is being played."


def _checks(checks: Mapping[str, bool | float]) -> str:
    """The checks that were not passed, in words: those that are false, else the lowest number under 1."""
    false = [name for name, value in checks.items() if value is False]
    if false:
        names = ", ".join(f"“{name}”" for name in false)
        return f"check {names} is false" if len(false) == 1 else f"checks {names} are false"
    numbers = {name: value for name, value in checks.items() if not isinstance(value, bool) and value < 1}
    if not numbers:
        return ""
    name = min(numbers, key=lambda one: numbers[one])
    return f"check “{name}” is {short(numbers[name])}"
