"""Say in words how an attempt ended, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext_lazy

from episodes.models import Episode
from webapp.charts.frame import short

Ending = Episode.Ending

WORDS = {
    "": pgettext_lazy("attempt", "playing"),
    Ending.SOLVED: pgettext_lazy("attempt", "solved"),
    Ending.FAILED: pgettext_lazy("attempt", "failed"),
    Ending.TRUNCATED: pgettext_lazy("attempt", "cut off"),
    Ending.GAVE_UP: pgettext_lazy("attempt", "gave up"),
    Ending.INFRA_ERROR: pgettext_lazy("attempt", "the world failed"),
    Ending.CANCELLED: pgettext_lazy("attempt", "called off"),
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
    >>> why(Episode(ending="failed", outcome=-1.0, checks={"right": False}, cost={"steps": 8, "invalid": 7}))
    'Its answer was wrong: check “right” is false. Of its 8 replies 7 called no tool, or none that takes such a call.'
    """
    return f"{_ended(episode, replies)} {_invalid(episode)}".rstrip()


def _ended(episode: Episode, replies: int | None) -> str:
    found, outcome = {"checks": _checks(episode.checks)}, {"outcome": short(episode.outcome or 0)}
    if episode.ending == Ending.TRUNCATED:
        return _cut_off(episode, replies or 0, found["checks"])
    if episode.ending == Ending.GAVE_UP:
        return _("The agent gave up: %(checks)s.") % found if found["checks"] else _("The agent gave up.")
    if episode.ending == Ending.FAILED:
        if found["checks"]:
            return _("Its answer was wrong: %(checks)s.") % found
        return _("Its outcome was %(outcome)s, and its world named no check.") % outcome
    if episode.ending == Ending.INFRA_ERROR:
        said = _("The world failed, not the agent, as its player said: it has no outcome.")
        return episode.reason or said
    if episode.ending == Ending.CANCELLED:
        return episode.reason or _("Its player called it off: it has no outcome.")
    if episode.ending == Ending.SOLVED:
        return _("Solved.") if episode.outcome == 1 else _("Solved, with an outcome of %(outcome)s.") % outcome
    return _("It is being played.")


def _invalid(episode: Episode) -> str:
    """How many of a lost attempt's replies called no tool that takes them, by its player's count; empty for none."""
    n, whole = episode.cost.get("invalid"), episode.cost.get("steps")
    if episode.ending not in LOST or not n or not whole:
        return ""
    told = {"part": short(n), "whole": short(whole)}
    return _("Of its %(whole)s replies %(part)s called no tool, or none that takes such a call.") % told


def _cut_off(episode: Episode, n: int, checks: str) -> str:
    told = {"n": n, "checks": checks}
    if episode.cut_by == Episode.Cut.CONTEXT:
        if not n:
            return _("The model’s window was full at its last reply: it says nothing of the agent, and does not count.")
        return (
            ngettext(
                "The model’s window was full at %(n)s reply: it says nothing of the agent, and does not count.",
                "The model’s window was full at %(n)s replies: it says nothing of the agent, and does not count.",
                n,
            )
            % told
        )
    if not n and checks:
        return _("Cut off at its last reply, before it had an answer: %(checks)s.") % told
    if not n:
        return _("Cut off at its last reply, before it had an answer.")
    if checks:
        return (
            ngettext(
                "Cut off at %(n)s reply, before it had an answer: %(checks)s.",
                "Cut off at %(n)s replies, before it had an answer: %(checks)s.",
                n,
            )
            % told
        )
    return (
        ngettext(
            "Cut off at %(n)s reply, before it had an answer.", "Cut off at %(n)s replies, before it had an answer.", n
        )
        % told
    )


def _checks(checks: Mapping[str, bool | float]) -> str:
    """The checks that were not passed, in words: those that are false, else the lowest number under 1."""
    false = [name for name, value in checks.items() if value is False]
    if false:
        names = ", ".join(f"“{name}”" for name in false)
        return ngettext("check %(names)s is false", "checks %(names)s are false", len(false)) % {"names": names}
    numbers = {name: value for name, value in checks.items() if not isinstance(value, bool) and value < 1}
    if not numbers:
        return ""
    name = min(numbers, key=lambda one: numbers[one])
    return _("check “%(name)s” is %(value)s") % {"name": name, "value": short(numbers[name])}
