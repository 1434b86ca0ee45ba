"""Stop a run whose step votes speak against the outcomes, or drown them. Pure.

A step judge that is wrong ruins a policy, and standardising gives votes a full say whatever they are worth. What keeps
a judge out who guesses is its measured accuracy, before any vote counts: of guesses each batch by itself looks much
like one of a right judge. What this sees in a batch is votes that contradict how the attempts ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.errors import TalkbackError
from training.objective.step_advantages import Attempt, Baseline, step_advantages

LEAST = 0.2
"""Correlation of the advantages with those of the outcomes alone under which a run stops. Votes of variance s² that
know nothing of outcomes of variance o² leave √(o² / (o² + s²)) of it: 0.6 where one attempt in six is solved and each
vote is ±1, and under 0.2 where outcomes differ by a fifth of what votes do: then a run would learn the votes alone."""

CHANCE = 2.0
"""By how many standard errors (1 / √steps) the votes themselves may correlate with the outcomes below 0: votes that
know nothing of them fall further in one run in forty, right ones in none."""

FEWEST_STEPS = 16
"""With fewer steps that have both, a correlation says nothing: of 16 unrelated ones it comes out at 0.5 one time in
twenty."""


AFTER = "Nothing was learned. Look at the votes; “Learn now” takes these attempts up again."


class VotesAgainstOutcomes(TalkbackError):
    """What judges voted on an agent's steps contradicts how its attempts ended; nothing was learned."""

    code, status = "votes_against_outcomes", 409


@dataclass(frozen=True)
class Played:
    """An attempt, and which of its scores are judges' votes alone."""

    attempt: Attempt
    voted: tuple[bool, ...]

    @property
    def without_votes(self) -> Attempt:
        scores = zip(self.attempt.scores, self.voted, strict=True)
        return replace(self.attempt, scores=tuple(0.0 if voted else score for score, voted in scores))


def check(played: Sequence[Played], baseline: Baseline) -> None:
    """Raise VotesAgainstOutcomes where judges' votes on steps go against the outcomes, or where the advantages have
    little to do with them, and do without the votes. What rules and people said of steps is trusted, and stops
    nothing."""
    if not any(voted and score for one in played for voted, score in zip(one.voted, one.attempt.scores, strict=True)):
        return
    against = _of_votes(played)
    if against is not None and against[0] < -CHANCE / math.sqrt(against[1]):
        raise VotesAgainstOutcomes(
            f"Judges voted for steps of attempts that failed and against steps of attempts that were solved: over "
            f"{against[1]} steps votes and outcomes correlate by {against[0]:.2f}. {AFTER}"
        )
    agreed = agreement([one.attempt for one in played], baseline)
    unvoted = agreement([one.without_votes for one in played], baseline, fewest=2)
    if agreed is not None and agreed < LEAST and unvoted is not None and unvoted >= LEAST:
        raise VotesAgainstOutcomes(
            f"Judges' votes on steps drown how the attempts ended: what the steps are worth correlates with it by "
            f"{agreed:.2f}, and by {unvoted:.2f} without the votes (at least {LEAST:g}). {AFTER}"
        )


def _of_votes(played: Sequence[Played]) -> tuple[float, int] | None:
    """The correlation of the votes themselves with what the outcomes alone say of their steps, and of how many steps;
    None where too few have both."""
    outcomes = step_advantages([one.attempt for one in played], baseline="outcome").steps
    both = [
        (score, step.advantage)
        for one, steps in zip(played, outcomes, strict=True)
        for score, voted, step in zip(one.attempt.scores, one.voted, steps, strict=True)
        if voted and step.advantage is not None
    ]
    found = correlation(both) if len(both) >= FEWEST_STEPS else None
    return None if found is None else (found, len(both))


def agreement(attempts: Sequence[Attempt], baseline: Baseline, *, fewest: int = FEWEST_STEPS) -> float | None:
    """How far the advantages of steps agree with those of the outcomes alone, over the steps that have both: Pearson's
    correlation. None where fewer have both, or one of the two is the same everywhere."""
    ours = step_advantages(attempts, baseline=baseline).steps
    outcomes = step_advantages(attempts, baseline="outcome").steps
    both = [
        (one.advantage, other.advantage)
        for mine, theirs in zip(ours, outcomes, strict=True)
        for one, other in zip(mine, theirs, strict=True)
        if one.advantage is not None and other.advantage is not None
    ]
    return correlation(both) if len(both) >= fewest else None


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's; None where either is constant.

    >>> correlation([(1, 2), (2, 4), (3, 6)]), correlation([(1, 1), (1, 2)])
    (1.0, None)
    """
    means = [math.fsum(one) / len(pairs) for one in zip(*pairs, strict=True)]
    apart = [(a - means[0], b - means[1]) for a, b in pairs]
    squares = math.fsum(a * a for a, _ in apart) * math.fsum(b * b for _, b in apart)
    return math.fsum(a * b for a, b in apart) / math.sqrt(squares) if squares else None
