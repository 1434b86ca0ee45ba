"""Thresholds of confidence from which on verdicts are given, and what each would do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from judge.calibration.verdict_figures import Verdict

LEAST = 30
"""Follow-ups that must stand above a threshold before its precision is believed."""
PRECISION = 0.90
"""Share of the verdicts given that must be right."""
WORST = 0.02
"""Share of all follow-ups that may be taken for good where they say that the reply was bad."""
OWN_PRECISION = 0.95
"""Share of the asked-for changes that must be one, for a person's next message to teach by itself."""
OWN_LEAST = 0.9
"""Probability that a change is asked for from which on it may."""


def rule() -> str:
    """How the threshold is chosen, in words for a judge's page."""
    return gettext(
        "The rule: the smallest threshold at or above which at least %(least)s gold follow-ups stand, %(precision)s of "
        "them right, and with which at most %(worst)s of all are taken for good though they say that the reply was bad."
    ) % {"least": LEAST, "precision": f"{PRECISION:.0%}", "worst": f"{WORST:.0%}"}


@dataclass(frozen=True)
class Point:
    """What a threshold does: verdicts at least so sure are given."""

    threshold: float
    coverage: float
    precision: float
    given: int
    worst: float
    """Share of all follow-ups that are taken for good and were bad."""


def curve(verdicts: Sequence[Verdict]) -> list[Point]:
    """A point for each confidence that occurs, the highest first: coverage grows from one to the next."""
    found: list[Point] = []
    given = right = worst = 0
    ordered = sorted(verdicts, key=lambda one: -one.confidence)
    for n, one in enumerate(ordered):
        given, right, worst = given + 1, right + one.is_right, worst + one.is_worst
        if n + 1 == len(ordered) or ordered[n + 1].confidence < one.confidence:
            found.append(Point(one.confidence, given / len(ordered), right / given, given, worst / len(ordered)))
    return found


def point_at(verdicts: Sequence[Verdict], threshold: float | None) -> Point | None:
    """What this threshold does; None where nothing was measured. Without a threshold nothing is given."""
    if not verdicts:
        return None
    reached = [point for point in curve(verdicts) if threshold is not None and point.threshold >= threshold]
    return reached[-1] if reached else Point(1.0 if threshold is None else threshold, 0.0, 1.0, 0, 0.0)


def threshold(
    verdicts: Sequence[Verdict], *, precision: float = PRECISION, least: float = 0.0, worst: float = 1.0
) -> float | None:
    """The smallest threshold, `least` or more, from which on verdicts are precise enough. None: there is none.

    Of the verdicts at or above it, at least LEAST, `precision` must be right, and of all follow-ups at most `worst` be
    taken for good where they were bad.
    """
    good = [
        point
        for point in curve(verdicts)
        if point.threshold >= least and point.given >= LEAST and point.precision >= precision and point.worst <= worst
    ]
    return good[-1].threshold if good else None
