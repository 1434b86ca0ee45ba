"""Scalings: from what a judge says to how likely it is right. Pure.

A judge gives each answer a probability, or casts a few votes. A scaling (vector scaling: one temperature, one bias an
answer) makes of them probabilities that hold. Where enough follow-ups are known, what the judge said to its other
question is weighed with it: a change that is asked for is no praise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FLOOR = 1e-6
"""No answer is taken for less likely than this: one reading of 400 must not outweigh all others."""

MACHINES = ("tool", "environment", "test")


@dataclass(frozen=True)
class Scaling:
    """q(answer) ∝ p(answer)^slope · e^bias."""

    answers: tuple[str, ...]
    slope: float = 1.0
    """One over the temperature."""
    biases: tuple[float, ...] = ()

    def __call__(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        logs = logs_of(probabilities, self.answers)
        return dict(zip(self.answers, softmax(self.slope * logs + self.bias_array).tolist(), strict=True))

    @property
    def bias_array(self) -> Floats:
        return np.array(self.biases or (0.0,) * len(self.answers))


@dataclass(frozen=True)
class JointScaling:
    """log q(answer) = Σ weight · log p + bias + a constant, over the answers to both questions."""

    answers: tuple[str, ...]
    beside: tuple[str, ...]
    """The answers to the other question."""
    weights: tuple[tuple[float, ...], ...]
    """A row for each answer: K of its own question, then those of the other."""
    biases: tuple[float, ...]

    def __call__(self, probabilities: Mapping[str, float], beside: Mapping[str, float]) -> dict[str, float]:
        logs = np.concatenate([logs_of(probabilities, self.answers), logs_of(beside, self.beside)])
        logits = np.array(self.weights) @ logs + np.array(self.biases)
        return dict(zip(self.answers, softmax(logits).tolist(), strict=True))


@dataclass(frozen=True)
class Scale:
    """The scaling of all follow-ups, and those of people's or machines' where there were enough."""

    pooled: Scaling
    by_kind: Mapping[str, Scaling] = field(default_factory=dict)
    joint: JointScaling | None = None
    """With the other question, where enough follow-ups were known."""
    joint_by_kind: Mapping[str, JointScaling] = field(default_factory=dict)

    def __call__(
        self, probabilities: Mapping[str, float], role: str, beside: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """`beside` is what the same judge said to its other question; None: it said nothing."""
        if self.joint is not None and beside is not None:
            return self.joint_by_kind.get(kind(role), self.joint)(probabilities, beside)
        return self.by_kind.get(kind(role), self.pooled)(probabilities)


def kind(role: str) -> str:
    """
    >>> kind("user"), kind("person"), kind("environment")
    ('people', 'people', 'machines')
    """
    return "machines" if role in MACHINES else "people"


def logs_of(probabilities: Mapping[str, float], answers: Sequence[str]) -> Floats:
    return np.log(np.maximum([probabilities.get(answer, 0.0) for answer in answers], FLOOR))


def softmax(logits: Floats) -> Floats:
    found = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(found / found.sum(axis=-1, keepdims=True))
