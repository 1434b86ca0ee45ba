"""Whether an engine answers with the weights that it says it has: its log-probs of a fixed probe, held against the
learner's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_noop

LIMITS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1.5e-1, "nf4": 5e-1}
"""How far engine and learner may be apart on equal weights: mean |Δ log-prob| a token, by the coarser dtype."""

SHARE = 0.5
"""How much of the learner's change must be seen in the engine's answers; 0 is the base, 1 the adapter."""

SAYS = {
    "stands still": gettext_noop(
        "The engine answers the probe as it did before: it has moved by %(moved)s a token, the learner by %(learned)s."
    ),
    "too little": gettext_noop(
        "The engine shows %(share)s of the learner's change (at least %(least)s is needed), but that is %(learned)s a "
        "token, which rounding may hide: engine and learner may be %(limit)s apart. Learn more before you serve it: "
        "more replies, more updates, or a higher rate."
    ),
    "ignored": gettext_noop(
        "The engine answers the probe as if the adapter were not there: it shows %(share)s of the learner's change (at "
        "least %(least)s is needed)."
    ),
    "apart": gettext_noop("The engine's log-probs are %(gap)s from the learner's on average; the limit is %(limit)s."),
    "passed": gettext_noop(
        "The engine's log-probs equal the learner's within %(gap)s (limit %(limit)s) and are %(shift)s from the base's."
    ),
}
"""What a proof comes to, in sentences. Rows keep them in English; pages say them in their reader's language
(webapp.serving.retold)."""


@dataclass(frozen=True)
class Proof:
    """What the engine gave the fixed probe, held against the learner's word and against the base."""

    gap: float
    """Mean |engine − learner| a token, both with these weights."""
    limit: float
    shift: float
    """Mean |with these weights − base| a token, both by the engine."""
    share: float
    """How much of the learner's change over the base the engine shows: 1 all of it, 0 nothing."""
    learned: float
    """Mean |with these weights − base| a token, both by the learner where it knows its own base."""
    step: float | None = None
    """Mean |with these weights − with those that were live before| a token, both by the engine; None: not asked."""
    expected_step: float | None = None
    """The same by the learner, where it scored this probe with both."""

    @property
    def differs(self) -> bool:
        """Whether the engine answers otherwise than before, by as much as the learner says it should."""
        if self.step is None:
            return True
        return self.step > 0 if self.expected_step is None else self.step >= SHARE * self.expected_step

    @property
    def passed(self) -> bool:
        return self.gap <= self.limit and self.share >= SHARE and self.differs

    @property
    def sentence(self) -> str:
        figures = {
            "gap": f"{self.gap:.4f}",
            "limit": f"{self.limit:g}",
            "shift": f"{self.shift:.4f}",
            "share": f"{self.share:.0%}",
            "least": f"{SHARE:.0%}",
            "learned": f"{self.learned:.4f}",
        }
        if not self.differs:
            figures |= {"moved": f"{self.step:.4f}", "learned": f"{self.expected_step or 0:.4f}"}
            return SAYS["stands still"] % figures
        if self.share < SHARE and self.learned < self.limit and self.shift > 0:  # one that stands still ignores it
            return SAYS["too little"] % figures
        if self.share < SHARE:
            return SAYS["ignored"] % figures
        return SAYS["apart" if self.gap > self.limit else "passed"] % figures


def compare(
    engine: Sequence[float],  # with the adapter, by the engine
    base: Sequence[float],  # without it, by the engine
    learner: Sequence[float],  # with the adapter, by the learner
    learner_base: Sequence[float] | None = None,  # without it, by the learner
    *,
    before: Sequence[float] | None = None,  # with the weights that were live before, by the engine
    learner_before: Sequence[float] | None = None,  # with those, by the learner
    dtype: str = "bfloat16",
) -> Proof:
    """Hold the engine's answer to the learner's. Lengths that disagree raise ValueError.

    The share is the slope of the engine's change on the learner's, Σ e·l / Σ l·l over the tokens: each side is
    measured from its own base where it is known, so that what the two do differently on equal weights cancels.

    >>> compare([-1.0, -2.0], [-1.5, -2.5], [-1.0, -2.0]).share
    1.0
    >>> compare([-1.5, -2.5], [-1.5, -2.5], [-1.0, -2.0]).share
    0.0
    """
    changes = list(zip(engine, base, strict=True))
    seen = [with_it - without for with_it, without in changes]
    said = [a - b for a, b in zip(learner, learner_base if learner_base else base, strict=True)]
    size = sum(change * change for change in said)
    return Proof(
        gap=sum(abs(a - b) for a, b in zip(engine, learner, strict=True)) / len(seen),
        limit=LIMITS.get(dtype, LIMITS["bfloat16"]),
        shift=sum(abs(change) for change in seen) / len(seen),
        share=sum(a * b for a, b in zip(seen, said, strict=True)) / size if size else 0.0,
        learned=sum(abs(change) for change in said) / len(said),
        step=None if before is None else _apart(engine, before),
        expected_step=None if learner_before is None else _apart(learner, learner_before),
    )


def coarser(dtypes: Iterable[str]) -> str:
    """Of these the one that allows the most; bfloat16 where there is none.

    >>> coarser(["float32", "nf4"]), coarser([])
    ('nf4', 'bfloat16')
    """
    return max(dtypes, key=lambda dtype: LIMITS.get(dtype, 1.0), default="bfloat16")


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    """Mean |difference| a token."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)
