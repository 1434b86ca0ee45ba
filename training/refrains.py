"""What is rightly said again: code, tables, markup, a text that was asked for word for word.

To unlearn what replies say again (`training/repetitions.py`) makes a model shy of saying anything again, and code is
full of it. So beside a loop that goes, a refrain stays: of texts of our own, which no person asked for, the tokens that
were said before are learned to be likely. That costs next to nothing where they are, and tells one kind from the other
(decision 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from training.config import Recipe
from training.pools import Pool
from training.repetitions import again

if TYPE_CHECKING:
    from gpu_workers.answers import Answers

NAME = "refrain"
"""What these are called among a step's answers."""

RUN = 3
"""Tokens in a row that count as said again with the last of them, in a prompt and its reply: fewer than of a loop,
since what is copied a word at a time is rightly said again too."""


@dataclass(frozen=True)
class Refrain:
    """A prompt and a reply that rightly says something again, of itself or of the prompt, in tokens."""

    prompt: Sequence[int]
    reply: Sequence[int]

    def __post_init__(self) -> None:
        if not self.prompt or not any(self.marks):
            raise ValueError("a refrain has a prompt, and a reply that says something again")

    @cached_property
    def marks(self) -> list[bool]:
        """Of each token of the reply, whether it was said before."""
        return again([*self.prompt, *self.reply], RUN)[len(self.prompt) :]

    @property
    def tokens(self) -> int:
        return len(self.prompt) + len(self.reply)


POOL = Pool[Refrain](at_once=6)


def drawn(recipe: Recipe, seed: int, known: Sequence[Refrain] | None = None) -> list[Refrain]:
    """Those of a run; none where nothing is unlearned."""
    return POOL.drawn(recipe.updates, seed, known) if recipe.w_again else []


def tokens(recipe: Recipe) -> int:
    """About as many as a run's update reads of them."""
    return POOL.tokens() if recipe.w_again else 0


def of_update(refrains: Sequence[Refrain], update: int, scale: float) -> list[Answers]:
    """Those of a run's update, counted from 1, as answers whose loss is scale · mean over them of the mean −log-prob of
    what they say again. Empty where the run has none."""
    from gpu_workers.answers import Answers

    some = POOL.of_update(refrains, update)
    if not some:
        return []
    weights = [[is_again / sum(one.marks) for is_again in one.marks] for one in some]
    return [Answers([(one.prompt, one.reply) for one in some], weights, scale, name=NAME)]
