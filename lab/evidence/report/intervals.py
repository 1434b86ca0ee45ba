"""Figures as a person reads them: a mean with its interval, a difference, a number over the seeds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def span(found: Mapping[str, Any] | None, limit: float | None = None) -> str:
    """A mean with its interval; the mean in one more digit where it would read as the limit that it is held to.

    >>> span({"mean": 0.912, "low": 0.9, "high": 0.93}), span(None)
    ('0.91 (0.90 to 0.93)', '–')
    >>> span({"mean": 0.896, "low": 0.83, "high": 0.96}, 0.9)
    '0.896 (0.83 to 0.96)'
    """
    if not found:
        return "–"
    digits = 3 if limit is not None and round(found["mean"], 2) == round(limit, 2) else 2
    return f"{found['mean']:.{digits}f} ({found['low']:.2f} to {found['high']:.2f})"


def signed(found: Mapping[str, Any] | None) -> str:
    """A difference with its interval.

    >>> signed({"mean": 0.1, "low": -0.05, "high": 0.25})
    '+0.10 (−0.05 to +0.25)'
    """
    if not found:
        return "–"
    return f"{found['mean']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})".replace("-", "−")


def count(found: Mapping[str, float] | None) -> str:
    """How many, over the seeds.

    >>> count({"least": 30, "mean": 33.0, "most": 36}), count({"least": 30, "mean": 30, "most": 30})
    ('33 (30 to 36)', '30')
    """
    if not found:
        return "–"
    same = found["least"] == found["most"]
    return f"{found['mean']:.0f}" if same else f"{found['mean']:.0f} ({found['least']:.0f} to {found['most']:.0f})"
