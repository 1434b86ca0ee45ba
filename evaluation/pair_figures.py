"""The figures of replies beside those of their shadows, paired, and what of them got worse. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from core import statistics
from core.statistics import Interval
from evaluation import shadows
from training.config import Gate

ENOUGH = 10
"""Pairs from which on an interval is believed: a bootstrap of fewer is surer than it may be."""

Pair = Mapping[str, Mapping[str, Any]]
"""{"reply": figures, "shadow": figures}, as evaluation.shadows measures them."""


@dataclass(frozen=True)
class Compared:
    """One figure of replies beside their shadows'."""

    name: str
    title: str
    reply: float
    shadow: float
    found: Interval
    """Of the paired change: a difference, or the logarithm of a ratio."""
    is_ratio: bool
    is_worse: bool
    sentence: str
    """What it says where it is worse."""

    @property
    def is_known(self) -> bool:
        return self.found.number >= ENOUGH

    @property
    def missing(self) -> int:
        """How many more pairs it takes until it is believed."""
        return max(0, ENOUGH - self.found.number)

    @property
    def change(self) -> tuple[float, float, float]:
        """The mean change and its interval, as a difference or a ratio."""
        edges = (self.found.mean, self.found.low, self.found.high)
        return (math.exp(edges[0]), math.exp(edges[1]), math.exp(edges[2])) if self.is_ratio else edges


def compare(pairs: Sequence[Pair], limits: Gate) -> list[Compared]:
    """The figures of replies beside their shadows', paired, each with a bootstrap interval; those that no pair has are
    left out. What counts as worse is what the gate's limits say, and beyond them all of the interval must lie.

    A reply is counted up to the length at which its shadow is cut.
    """
    found = [
        _compared(
            pairs,
            "length",
            _("Length, tokens"),
            lambda reply, shadow: math.log((min(reply, shadows.MOST_TOKENS) + 1) / (shadow + 1)),
            lambda at: at.high < math.log(limits.shortest or 1e-9) or at.low > math.log(limits.longest),
            lambda mean, low, high: (
                _("Length: replies are %(mean)s times as long as the base’s (%(low)s to %(high)s).")
                % {"mean": f"{mean:.2g}", "low": f"{low:.2g}", "high": f"{high:.2g}"}
            ),
            is_ratio=True,
        ),
        _compared(
            pairs,
            "repetition",
            _("Repeated runs of four tokens, share"),
            lambda reply, shadow: reply - shadow,
            lambda at: at.low > 0,
            lambda mean, low, high: (
                _("Repetition: %(mean)s more of a reply repeats what it has said (%(low)s to %(high)s).")
                % {"mean": f"{mean:.1%}", "low": f"{low:.1%}", "high": f"{high:.1%}"}
            ),
        ),
        _compared(
            pairs,
            "under_base",
            _("Log-prob under the base, nats per token"),
            lambda reply, shadow: reply - shadow,
            lambda at: at.high < -limits.fluency,
            lambda mean, low, high: (
                _(
                    "Words: the base finds replies %(mean)s nats per token less likely than its own (%(low)s to "
                    "%(high)s); beyond %(limit)s they tend to lose their subject."
                )
                % {
                    "mean": f"{-mean:.2f}",
                    "low": f"{-high:.2f}",
                    "high": f"{-low:.2f}",
                    "limit": f"{limits.fluency:g}",
                }
            ),
        ),
        _compared(
            pairs,
            "logprob",
            _("Sureness of its own words, nats per token"),
            lambda reply, shadow: reply - shadow,
            lambda at: False,  # neither more nor less of it is better
            lambda mean, low, high: "",
        ),
    ]
    return [one for one in found if one is not None]


def _compared(
    pairs: Sequence[Pair],
    name: str,
    title: str,
    change: Callable[[float, float], float],
    is_bad: Callable[[Interval], bool],
    sentence: Callable[[float, float, float], str],
    *,
    is_ratio: bool = False,
) -> Compared | None:
    both = [
        (float(pair["reply"][name]), float(pair["shadow"][name]))
        for pair in pairs
        if pair and pair["reply"].get(name) is not None and pair["shadow"].get(name) is not None
    ]
    if not both:
        return None
    at = statistics.bootstrap([change(reply, shadow) for reply, shadow in both])
    means = [statistics.mean(side) for side in zip(*both, strict=True)]
    one = Compared(name, title, means[0], means[1], at, is_ratio, at.number >= ENOUGH and is_bad(at), "")
    return Compared(**vars(one) | {"sentence": sentence(*one.change)})
