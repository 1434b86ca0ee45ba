"""Answers weigh each token of replies that are wanted, or not, in a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gpu_workers.learner.branching import Pair


@dataclass(frozen=True)
class Answers:
    """Weigh answers to prompts; the loss is scale · (mean over the pairs of Σ weight · −log-prob of the answer's
    tokens). Raises ValueError where lengths disagree, or a weight is no number."""

    pairs: Sequence[Pair]
    weights: Sequence[Sequence[float]] | None = None
    """One a token of each answer; those that add up to 1 make a mean, and one below 0 is of a token that is wanted
    less. None: the plain mean of each."""
    scale: float = 1.0
    name: str = "supervised"
    """What their loss is called among a step's figures: "supervised_loss"."""

    def __post_init__(self) -> None:
        if not self.pairs or not all(prompt and answer for prompt, answer in self.pairs):
            raise ValueError("nothing to learn from: each pair has a prompt and an answer")
        if self.weights is None:
            return
        if [len(one) for one in self.weights] != [len(answer) for _, answer in self.pairs]:
            raise ValueError("weights are one a token of each answer")
        if not all(math.isfinite(each) for one in self.weights for each in one):
            raise ValueError("a weight of an answer is no number")

    @cached_property
    def shares(self) -> list[Tensor]:
        """What each answer token counts, (T,) a pair."""
        if self.weights is None:
            return [torch.full((len(answer),), 1 / len(answer)) for _, answer in self.pairs]
        return [torch.tensor(list(one), dtype=torch.float32) for one in self.weights]

    def beside(self, figures: Mapping[str, float], said: Mapping[str, float]) -> dict[str, float]:
        """The figures of a step on views with those of these answers, which it took beside them."""
        sums = {name: figures[name] + said[name] for name in ("tokens", "computed", "seconds") if name in figures}
        loss = figures["loss"] + self.scale * said["loss"]
        return {**figures, **sums, "loss": loss, f"{self.name}_loss": said["loss"]}
