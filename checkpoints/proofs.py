"""Whether an engine answers with the weights that it says it has: its log-probs of a fixed probe, held against the
learner's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LIMITS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1.5e-1, "nf4": 5e-1}
"""How far engine and learner may be apart on equal weights: mean |Δ log-prob| a token, by the coarser dtype."""

SHARE = 0.5
"""How much of the learner's change must be seen in the engine's answers; 0 is the base, 1 the adapter."""


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
        if not self.differs:
            return (
                f"The engine answers the probe as it did before: it has moved by {self.step:.4f} a token, "
                f"the learner by {self.expected_step or 0:.4f}."
            )
        if self.share < SHARE and self.learned < self.limit and self.shift > 0:  # one that stands still ignores it
            return (
                f"The engine shows {self.share:.0%} of the learner's change (at least {SHARE:.0%} is needed), but that "
                f"is {self.learned:.4f} a token, which rounding may hide: engine and learner may be {self.limit:g} "
                "apart. Learn more before you serve it: more replies, more updates, or a higher rate."
            )
        if self.share < SHARE:
            return (
                f"The engine answers the probe as if the adapter were not there: it shows {self.share:.0%} "
                f"of the learner's change (at least {SHARE:.0%} is needed)."
            )
        if self.gap > self.limit:
            return (
                f"The engine's log-probs are {self.gap:.4f} from the learner's on average; the limit is {self.limit:g}."
            )
        return (
            f"The engine's log-probs equal the learner's within {self.gap:.4f} (limit {self.limit:g}) "
            f"and are {self.shift:.4f} from the base's."
        )


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
