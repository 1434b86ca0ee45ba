"""What a reply says again, learned to be said less: unlikelihood, Welleck et al. 2020, arXiv:1908.04319.

A lesson makes a small model surer of itself, and what is sure says the same again: a list goes on with the item before
to the last token that it may have, and its end never comes. Rewrites do not show the way out, since none of them has
a loop's beginning before it. The policy's own replies do (decision 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_workers.errors import NothingLearned
from gpu_workers.types import Example

if TYPE_CHECKING:
    from gpu_workers.answers import Answers
    from gpu_workers.branching import Pair
    from gpu_workers.learner import Learner

NAME = "repetition"
"""What the pull of these is called among a step's answers."""

RUN = 6
"""Tokens in a row that count as said again with the last of them."""

SUREST = 0.99
"""What is likelier than this pulls no more than this: the slope in a log-prob, p / (1 - p), has no bound."""


def again(ids: Sequence[int], run: int = RUN) -> list[bool]:
    """Of each token, whether it and those before it, `run` together, stood so before.

    >>> again([1, 2, 3, 1, 2, 4, 1, 2, 3], 2)
    [False, False, False, False, True, False, False, True, True]
    """
    seen: set[tuple[int, ...]] = set()
    marks = []
    for some in _runs(ids, run):
        marks.append(some in seen)
        if len(some) == run:
            seen.add(some)
    return marks


def unwanted(
    reply: Sequence[int], *, rewrite: Sequence[int] | None = None, rewards: Sequence[float] = (), run: int = RUN
) -> list[bool]:
    """Of each token of a reply, whether it says something again that no person was content with: a reply that was
    rewarded and not rewritten has none, and what its rewrite says again too was let stand.

    >>> unwanted([1, 2, 3, 1, 2, 4, 1, 2, 3], rewrite=[1, 2, 1, 2], run=2)
    [False, False, False, False, False, False, False, False, True]
    >>> unwanted([1, 2, 1, 2], rewards=[1.0], run=2)
    [False, False, False, False]
    """
    if not rewrite and any(reward > 0 for reward in rewards):
        return [False] * len(reply)
    written = rewrite or []
    kept = {some for some, stands in zip(_runs(written, run), again(written, run), strict=True) if stands}
    return [stands and some not in kept for some, stands in zip(_runs(reply, run), again(reply, run), strict=True)]


def _runs(ids: Sequence[int], run: int) -> list[tuple[int, ...]]:
    """Each token with those before it, `run` together; fewer at the beginning."""
    return [tuple(ids[max(0, end - run) : end]) for end in range(1, len(ids) + 1)]


@dataclass(frozen=True)
class Repetitions:
    """Replies that say something again, as they are to be learned."""

    replies: Sequence[Pair]
    marks: Sequence[Sequence[bool]]
    """Of each reply's tokens, those that are to be less likely."""
    scale: float

    def pull(self, learner: Learner) -> tuple[Answers, dict[str, float]]:
        """Answers whose gradient is that of scale · mean over the replies of (1 / T) Σ −log(1 − p) over the tokens that
        are marked, at the weights as they are, and "repetition_loss", that mean without the scale. Raises
        NothingLearned where a log-prob is no number."""
        from gpu_workers.answers import Answers

        weights: list[list[float]] = []
        losses = []
        for marks, logprobs in zip(self.marks, learner.logprobs(self.replies), strict=True):
            if not all(map(math.isfinite, logprobs)):
                raise NothingLearned("The log-prob of a reply is not a number: nothing was learned.")
            marked = [
                min(math.exp(each), SUREST) if is_marked else 0.0
                for each, is_marked in zip(logprobs, marks, strict=True)
            ]
            weights.append([-p / (1 - p) / len(marks) for p in marked])
            losses.append(sum(-math.log1p(-p) for p in marked) / len(marks))
        return Answers(self.replies, weights, self.scale, name=NAME), {"repetition_loss": sum(losses) / len(losses)}


def said_again(examples: Sequence[Example], weight: float) -> Repetitions | None:
    """The replies among these that say something again which no person was content with; each weighs what a reply does,
    times `weight`. None where none does, or it weighs nothing. Left out is what holds tokens that are not to be learned
    from."""
    turns = [one for one in examples if one.kind == "turn"]
    found, marks = [], []
    for one in turns:
        prompt, reply = one.whole or (one.prompt_ids, one.response_ids)
        written = one.rewrite[1] if one.rewrite else None
        marked = unwanted(reply, rewrite=written, rewards=one.rewards or [one.reward])
        if any(marked) and all(one.mask):
            found.append((prompt, reply))
            marks.append(marked)
    return Repetitions(found, marks, weight * len(found) / len(turns)) if found and weight else None
