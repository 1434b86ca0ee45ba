"""What a person wrote, preferred to the reply that they wrote it in place of: DPO, arXiv:2305.18290.

To learn a rewrite as it stands is mostly to learn the policy's own words, since most of a reply is let stand. Held
against the reply, only what is different pulls: one long word less, and not the sentence around it. What is preferred
clearly already pulls no more, so that what is replayed is not learned by heart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_workers.answers import Answers
from gpu_workers.branching import Pair
from gpu_workers.errors import NothingLearned
from gpu_workers.types import Example

if TYPE_CHECKING:
    from gpu_workers.learner import Learner

NAME = "preference"
"""What the pull of these is called among a step's answers."""


@dataclass(frozen=True)
class Couple:
    """Two answers to one prompt, of which a person would rather have the first."""

    prompt: Sequence[int]
    chosen: Sequence[int]
    rejected: Sequence[int]


@dataclass(frozen=True)
class Preferences:
    """Couples as they are to be learned."""

    couples: Sequence[Couple]
    by_base: Sequence[tuple[float, float]]
    """The base's log-prob of each couple's chosen answer, and of the rejected one, in nats."""
    beta: float
    scale: float

    @classmethod
    def of(cls, learner: Learner, couples: Sequence[Couple], *, beta: float, scale: float) -> Preferences:
        """As the learner's base sees them: once a run. Raises NothingLearned where it does not say a number."""
        return cls(couples, _read(learner, couples, adapter=False), beta, scale)

    def pull(self, learner: Learner) -> tuple[Answers, dict[str, float]]:
        """Answers whose gradient is that of scale · mean over the couples of −log σ(β · margin) at the weights as they
        are, and "preference_loss" (that mean, without the scale), "preference_margin" (mean, nats), the part of it that
        is the chosen answers' own rise, "preference_chosen", and "preferred", the share of couples whose margin is
        above 0. Raises NothingLearned where a log-prob is no number.

        A couple's margin is how much likelier the policy holds its chosen answer than the rejected one, beside the
        base. Of −log σ(βm) the slope is −β · σ(−βm): each token of the chosen answer is pulled up by that much, and
        each of the rejected one down, so a step needs no two answers in one pass.
        """
        rises = [
            (chosen - base_chosen, rejected - base_rejected)
            for (chosen, rejected), (base_chosen, base_rejected) in zip(
                _read(learner, self.couples, adapter=True), self.by_base, strict=True
            )
        ]
        margins = [chosen - rejected for chosen, rejected in rises]
        slopes = [self.beta * _sigmoid(-self.beta * margin) for margin in margins]
        weights = []
        for couple, slope in zip(self.couples, slopes, strict=True):
            weights += [[slope] * len(couple.chosen), [-slope] * len(couple.rejected)]
        told = {
            "preference_loss": sum(-_log_sigmoid(self.beta * margin) for margin in margins) / len(margins),
            "preference_margin": sum(margins) / len(margins),
            "preference_chosen": sum(chosen for chosen, _ in rises) / len(rises),
            "preferred": sum(margin > 0 for margin in margins) / len(margins),
        }
        # Answers take the mean over all pairs, and a couple is two of them.
        return Answers(_pairs(self.couples), weights, 2 * self.scale, name=NAME), told


def couples(examples: Sequence[Example], max_tokens: int | None) -> list[Couple]:
    """What people wrote in place of these, and the replies, the first `max_tokens` of each. Left out is what cannot be
    held against a rewrite: a reply that is the same till there, one with tokens that are not to be learned from, and
    one that was cut to its marked words, and begins elsewhere."""
    found = []
    for example in examples:
        if example.rewrite is None or not all(example.mask):
            continue
        prompt, rewrite = example.rewrite
        if list(prompt) != list(example.prompt_ids):
            continue
        chosen, rejected = list(rewrite)[:max_tokens], list(example.response_ids)[:max_tokens]
        if chosen != rejected:
            found.append(Couple(prompt, chosen, rejected))
    return found


def _pairs(couples: Sequence[Couple]) -> list[Pair]:
    return [(couple.prompt, answer) for couple in couples for answer in (couple.chosen, couple.rejected)]


def _read(learner: Learner, couples: Sequence[Couple], *, adapter: bool) -> list[tuple[float, float]]:
    """The log-prob of each couple's chosen answer, and of the rejected one, in nats."""
    sums = [sum(one) for one in learner.logprobs(_pairs(couples), adapter=adapter)]
    if not all(map(math.isfinite, sums)):
        raise NothingLearned("The log-prob of a rewrite, or of its reply, is not a number: nothing was learned.")
    return list(zip(sums[::2], sums[1::2], strict=True))


def _log_sigmoid(value: float) -> float:
    """
    >>> round(_log_sigmoid(0.0), 4), round(_log_sigmoid(-800.0), 4), _log_sigmoid(800.0)
    (-0.6931, -800.0, -0.0)
    """
    return min(value, 0.0) - math.log1p(math.exp(-abs(value)))


def _sigmoid(value: float) -> float:
    return math.exp(_log_sigmoid(value))
