"""Scores are what an objective sees: examples with the frozen models' log-probs, and a micro-batch beside the
policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gpu_workers.types import Example


@dataclass(frozen=True)
class ScoredExample:
    """An example with the frozen models' log-probs. It does not change while a run updates the policy."""

    example: Example
    reference_logprobs: Tensor  # (T,) the base's
    start_logprobs: Tensor  # (T,) the policy's before the run's first update
    teacher_logprobs: Tensor | None  # (T,) given the hint
    target_hidden: Tensor  # (T, D) what the head makes the teacher's whole distribution of; without one, that of the
    # policy before the first update, or the base's where it is rehearsed; (0, D) where none was asked for
    teacher_distance: float  # mean |log π_T − log π| over the response; 0 says that the hint changes nothing


@dataclass(frozen=True)
class Scores:
    """A micro-batch as an objective sees it; B sequences, T response tokens, padding under mask 0."""

    logprobs: Tensor  # (B, T) under training
    distance: Tensor  # (B, T) the policy's divergence from its teacher, or from the base where there is no teacher
    behaviour_logprobs: Tensor  # (B, T) recorded when served
    start_logprobs: Tensor  # (B, T)
    reference_logprobs: Tensor  # (B, T)
    teacher_logprobs: Tensor  # (B, T) 0 where there is no teacher
    mask: Tensor  # (B, T)
    reward: Tensor  # (B,), or (B, T) where a person marked words of a reply
    has_teacher: Tensor  # (B,)
    weight: Tensor  # (B,)

    @classmethod
    def of(
        cls, samples: Sequence[ScoredExample], logprobs: Sequence[Tensor], distance: Sequence[Tensor] | None = None
    ) -> Scores:
        """Pad samples and the policy's log-probs of their replies and its distances, (T,) each; no distances are 0."""
        examples, device = [sample.example for sample in samples], logprobs[0].device

        def numbers(values: Sequence[float]) -> Tensor:
            return torch.tensor(list(values), dtype=torch.float32, device=device)

        rewarded = any(example.rewards for example in examples)
        return cls(
            logprobs=padded(logprobs),
            distance=padded([torch.zeros_like(one) for one in logprobs] if distance is None else distance),
            behaviour_logprobs=padded([numbers(e.behaviour_logprobs) for e in examples]),
            start_logprobs=padded([sample.start_logprobs for sample in samples]),
            reference_logprobs=padded([sample.reference_logprobs for sample in samples]),
            teacher_logprobs=padded(
                [
                    torch.zeros_like(sample.start_logprobs)
                    if sample.teacher_logprobs is None
                    else sample.teacher_logprobs
                    for sample in samples
                ]
            ),
            mask=padded([numbers(e.mask or [1.0] * len(e.response_ids)) for e in examples]),
            reward=padded([numbers(e.rewards or [e.reward] * len(e.response_ids)) for e in examples])
            if rewarded
            else numbers([e.reward for e in examples]),
            has_teacher=numbers([float(e.has_teacher) for e in examples]),
            weight=numbers([e.weight for e in examples]),
        )

    def only(self, rows: Sequence[int]) -> Scores:
        """Those of these sequences."""
        return Scores(*(getattr(self, field.name)[list(rows)] for field in fields(self)))


def replies(samples: Sequence[ScoredExample]) -> list[bool]:
    """Tell of which of these figures speak: of replies, and of what is rehearsed only where there is nothing else."""
    turns = [sample.example.kind == "turn" for sample in samples]
    return turns if any(turns) else [True] * len(samples)


Objective = Callable[[Scores], tuple[Tensor, dict[str, Tensor]]]
"""A micro-batch to its mean loss over its sequences, and figures that are means over its sequences too."""


def padded(rows: Sequence[Tensor]) -> Tensor:
    """Pad rows of (T,) each to (B, T), with 0 behind the shorter ones."""
    return pad_sequence(list(rows), batch_first=True)
