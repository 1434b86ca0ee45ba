"""The score of one step of an episode, from −1 to 1: who decides it, and what a vote counts. Pure.

The order (judge.votes.precedence): a reviewer, a person's thumb, their marks, a test's verdict, the world's own score,
a visible rule, votes. Where none of them spoke the step scores 0: then its attempt's outcome alone teaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from judge.models import Overruling
from judge.votes import visible_rules
from judge.votes.evidence import Evidence
from judge.votes.voting import Outcome

WORLD = "world"
"""`Judgement.reward_from` where the world scored the step."""


@dataclass(frozen=True)
class StepScore:
    """What is known of a step."""

    value: float = 0.0
    """−1 to 1; of votes, already multiplied by what they are worth."""
    source: str = ""
    """reviewer | thumb | marks | test | world | rule | votes; empty: nothing is known of it."""
    rule: str = ""
    """The visible rule that decided."""
    confidence: float | None = None

    @property
    def sign(self) -> int | None:
        """−1, 0 or 1, as a judgement keeps it; None where nothing is known.

        >>> StepScore(0.25, "world").sign, StepScore(0, "reviewer").sign, StepScore().sign
        (1, 0, None)
        """
        return (self.value > 0) - (self.value < 0) if self.source else None

    @property
    def is_voted(self) -> bool:
        return self.source == "votes"


UNKNOWN = StepScore()


def state(seen: Evidence, *, word: Overruling | None = None, world: float | None = None) -> StepScore:
    """What persons, tests, the world and visible rules say of a step; UNKNOWN leaves it to votes. A reviewer's word of
    no reward is a 0 that no vote changes."""
    if word is not None:
        return StepScore(float(word.reward or 0), "reviewer", confidence=1.0)
    ruled = seen.reward is not None
    comes_first = seen.reward_from in ("thumb", "marks") or seen.rule == visible_rules.TEST_VERDICT
    if world is not None and not (ruled and comes_first):
        return StepScore(float(world), WORLD, confidence=1.0)
    if not ruled:
        return UNKNOWN
    return StepScore(float(seen.reward or 0), seen.reward_from, seen.rule, 1.0)


def weigh(found: Outcome, worth: float) -> StepScore:
    """What votes say of a step, each worth so much; UNKNOWN where they abstain, or are worth nothing.

    >>> weigh(Outcome(-1, 0.9, 3, 3), 0.6).value, weigh(Outcome(None, 0.4, 3, 3), 0.6) == UNKNOWN
    (-0.6, True)
    """
    if found.reward is None or not worth:
        return UNKNOWN
    return StepScore(found.reward * worth, "votes", confidence=found.confidence)
