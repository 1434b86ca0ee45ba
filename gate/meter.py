"""The overfitting meter: what a candidate did with its lessons, beside live. Pure.

Whether it learned by heart shows in the gap between what it trained on and what it did not, and in what it copies;
whether it lost itself, in how far it is from the base and in how little it still chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.utils.translation import gettext_noop

from core import statistics
from gate import reply_figures
from training.config import Gate

LIVE, CANDIDATE = "live", "candidate"
Pairs = Sequence[Mapping[str, Any]]

COPIED = 6
"""Tokens in a row that count as copied; of shorter ones every two texts share some."""

GAP = 1.0
"""Most that it may have moved more on the replies that it trained on than on others, nats a token."""

COPIES = 0.2
"""Most rise, beside live's, of the share of its replies' runs that stand in what it was trained on."""

ENTROPY = 0.1
"""Least entropy of its replies over live's: a policy that is sure of everything has stopped choosing."""

SAYS = {
    "gap": gettext_noop(
        "Its log-prob of the replies it trained on moved by %(learned)s nats per token, of others by %(other)s: "
        "%(gap)s apart (at most %(limit)s)."
    ),
    "copied": gettext_noop("%(now)s of its runs of %(tokens)s tokens stand in what it was trained on (live %(live)s)."),
    "entropy": gettext_noop("Its replies have %(now)s nats per token of entropy (live %(live)s, at least %(limit)s)."),
    "kl to base": gettext_noop(
        "Its replies are %(now)s nats per token from the base (live %(live)s, at most %(limit)s)."
    ),
    "variety": gettext_noop("%(now)s of its replies to different prompts differ (live %(live)s)."),
    "length": gettext_noop("Its replies have %(now)s tokens (live %(live)s)."),
}
"""What is read, as gate.findings.SAYS."""


@dataclass(frozen=True)
class Gauge:
    """One figure of both, on a scale, with the limit that the candidate is held to, where there is one."""

    name: str
    readings: tuple[tuple[str, float], ...]
    """(whose, value), the candidate's last."""
    scale: tuple[float, float]
    sentence: str
    value: float = 0.0
    """What is held to the limit."""
    limit: float | None = None
    passed: bool = True
    worst: tuple[str, ...] = ()
    """Ids of the pairs that made it fail, the worst first."""

    def written(self) -> dict[str, Any]:
        return asdict(self)


def gauges(pairs: Pairs, trained: Sequence[float], limits: Gate) -> list[Gauge]:
    """Of the exam's pairs, and of the changes of log-prob a token, from live to the candidate, on the run's own
    replies."""
    found = [_gap(pairs, trained), _copied(pairs), _entropy(pairs), _kl(pairs, limits)]
    return [gauge for gauge in (*found, _variety(pairs), _length(pairs)) if gauge is not None]


def _gap(pairs: Pairs, trained: Sequence[float]) -> Gauge | None:
    others = [pair["candidate_on_live"] - pair["live_own"] for pair in pairs if _has(pair, "candidate_on_live")]
    if not trained or not others:
        return None
    learned, other = statistics.mean(trained), statistics.mean(others)
    gap = abs(learned - other)
    told = {"learned": f"{learned:+.2f}", "other": f"{other:+.2f}", "gap": f"{gap:.2f}", "limit": f"{GAP:g}"}
    said = SAYS["gap"] % told
    return Gauge("gap", (("others", other), ("trained on", learned)), (-1, 1), said, gap, GAP, gap <= GAP)


def _copied(pairs: Pairs) -> Gauge | None:
    both = [pair for pair in pairs if _has(pair, "candidate_copied")]
    if not both:
        return None
    live, candidate = (statistics.mean([pair[f"{side}_copied"] for pair in both]) for side in (LIVE, CANDIDATE))
    limit = live + COPIES
    said = SAYS["copied"] % {"now": f"{candidate:.0%}", "tokens": COPIED, "live": f"{live:.0%}"}
    worst = sorted(both, key=lambda pair: pair["live_copied"] - pair["candidate_copied"])
    return Gauge(
        "copied",
        ((LIVE, live), (CANDIDATE, candidate)),
        (0, 1),
        said,
        candidate,
        limit,
        candidate <= limit,
        _ids(worst),
    )


def _entropy(pairs: Pairs) -> Gauge | None:
    both = [pair for pair in pairs if _has(pair, "candidate_own")]
    if not both:
        return None
    live, candidate = (-statistics.mean([pair[f"{side}_own"] for pair in both]) for side in (LIVE, CANDIDATE))
    limit = live * ENTROPY
    said = SAYS["entropy"] % {"now": f"{candidate:.2f}", "live": f"{live:.2f}", "limit": f"{limit:.2f}"}
    worst = sorted(both, key=lambda pair: -pair["candidate_own"])
    return Gauge(
        "entropy",
        ((LIVE, live), (CANDIDATE, candidate)),
        (0, 3),
        said,
        candidate,
        limit,
        candidate >= limit,
        _ids(worst),
    )


def _kl(pairs: Pairs, limits: Gate) -> Gauge | None:
    both = [pair for pair in pairs if _has(pair, "candidate_own") and _has(pair, "candidate_plain")]
    if not both:
        return None
    live, candidate = (
        statistics.mean([pair[f"{side}_own"] - pair[f"{side}_plain"] for pair in both]) for side in (LIVE, CANDIDATE)
    )
    said = SAYS["kl to base"] % {"now": f"{candidate:.2f}", "live": f"{live:.2f}", "limit": f"{limits.kl:g}"}
    worst = sorted(both, key=lambda pair: pair["candidate_plain"] - pair["candidate_own"])
    within = candidate <= max(limits.kl, live)
    readings = ((LIVE, live), (CANDIDATE, candidate))
    return Gauge("kl to base", readings, (0, 3), said, candidate, limits.kl, within, _ids(worst))


def _variety(pairs: Pairs) -> Gauge | None:
    if not pairs:
        return None
    live, candidate = (reply_figures.variety([pair[side] for pair in pairs]) for side in (LIVE, CANDIDATE))
    said = SAYS["variety"] % {"now": f"{candidate:.0%}", "live": f"{live:.0%}"}
    return Gauge("variety", ((LIVE, live), (CANDIDATE, candidate)), (0, 1), said, candidate)


def _length(pairs: Pairs) -> Gauge | None:
    if not pairs:
        return None
    live, candidate = (statistics.mean([pair[f"{side}_tokens"] for pair in pairs]) for side in (LIVE, CANDIDATE))
    said = SAYS["length"] % {"now": f"{candidate:.0f}", "live": f"{live:.0f}"}
    return Gauge("length", ((LIVE, live), (CANDIDATE, candidate)), (0, max(live, candidate, 1.0)), said, candidate)


def _has(pair: Mapping[str, Any], name: str) -> bool:
    """Both sides of it: an exam of an earlier version, or one that asked fewer, lacks some."""
    other = name.replace(CANDIDATE, LIVE) if name != "candidate_on_live" else "live_own"
    return pair.get(name) is not None and pair.get(other) is not None


def _ids(pairs: Pairs) -> tuple[str, ...]:
    return tuple(pair["id"] for pair in pairs[:3])
