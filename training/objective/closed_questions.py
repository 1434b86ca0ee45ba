"""Closed questions with a right answer and wrong ones, that what a model knows is not lost for a style's sake.

Whatever a lesson moves, it moves the answers to other questions too, in no direction of its own; and since a model is
nearly undecided about more of what it has right than of what it has wrong, it loses more than it wins. To be held where
it was costs it the lesson. So it is taught in passing to tell right from wrong, of questions that are asked nowhere
else: what it is sure of hardly pulls, and what it learns of these helps it with others (decision 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.marked import gettext_noop
from gpu_workers.errors import NothingLearned

if TYPE_CHECKING:
    from gpu_workers.learner.answers import Answers
    from gpu_workers.learner.branching import Pair
    from gpu_workers.learner.learner import Learner

NAME = "closed"
"""What the pull of these is called among a step's answers."""

AT_ONCE = 16
"""Questions an update."""

TEMPERATURE = 0.3
"""The unit of a lead, in nats a token: where a right answer leads two others by three of it, it pulls a seventh of what
it would in a tie."""


@dataclass(frozen=True)
class Question:
    """A prompt and its answers, in tokens; the first one is right."""

    prompt: Sequence[int]
    answers: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        if len(self.answers) < 2 or not self.prompt or not all(self.answers):
            raise ValueError("a closed question has a prompt, a right answer and a wrong one at least")

    @property
    def tokens(self) -> int:
        """As many as a model reads to compare its answers."""
        return sum(len(self.prompt) + len(answer) for answer in self.answers)


@dataclass(frozen=True)
class Questions:
    """Questions as they are to be learned."""

    questions: Sequence[Question]
    scale: float

    def pull(self, learner: Learner) -> tuple[Answers, dict[str, float]]:
        """Answers whose gradient is that of scale · mean over the questions of −log p(right), p = softmax over a
        question's answers of their mean log-prob a token / `TEMPERATURE`, at the weights as they are; and "closed_loss"
        (that mean, without the scale) and "closed_right", the share of questions whose right answer is the likeliest.
        Raises NothingLearned where a log-prob is no number.

        Of −log p the slope in an answer's mean log-prob is (p − 1) / τ for the right one and p / τ for a wrong one, so
        a step needs no two answers in one pass.
        """
        from gpu_workers.learner.answers import Answers

        pairs: list[Pair] = [(one.prompt, answer) for one in self.questions for answer in one.answers]
        sums = [sum(one) for one in learner.logprobs(pairs)]
        if not all(map(math.isfinite, sums)):
            raise NothingLearned(
                gettext_noop("The log-prob of an answer to a closed question is not a number: nothing was learned.")
            )
        weights: list[list[float]] = []
        losses, right, said = [], 0, iter(sums)
        for one in self.questions:
            means = [next(said) / len(answer) for answer in one.answers]
            highest = max(means)
            parts = [math.exp((mean - highest) / TEMPERATURE) for mean in means]
            whole = sum(parts)
            losses.append(math.log(whole) - (means[0] - highest) / TEMPERATURE)
            right += means[0] > max(means[1:])
            for place, (part, answer) in enumerate(zip(parts, one.answers, strict=True)):
                slope = ((place == 0) - part / whole) / TEMPERATURE
                weights.append([slope / len(answer)] * len(answer))
        told = {"closed_loss": sum(losses) / len(losses), "closed_right": right / len(losses)}
        # Answers take the mean over all pairs, and a question is several of them.
        return Answers(pairs, weights, self.scale * len(pairs) / len(self.questions), name=NAME), told


def of_update(questions: Sequence[Question], update: int, scale: float) -> Questions | None:
    """Take those of a run's update, counted from 1; None where the run asks none.

    >>> run = [Question([1], [[2], [3]]), Question([4], [[5], [6]])]
    >>> asked = of_update(run, 2, scale=1.0)
    >>> len(asked.questions), asked.questions[0].prompt
    (2, [1])
    """
    if not questions:
        return None
    count = min(AT_ONCE, len(questions))
    first = (update - 1) * count  # the next ones, from the first again after the last
    return Questions([questions[at % len(questions)] for at in range(first, first + count)], scale)
