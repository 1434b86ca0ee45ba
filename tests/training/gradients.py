"""What a learner's weights are pulled by."""

from __future__ import annotations

import torch

from gpu_workers.learner.learner import Learner


def gradients(learner: Learner) -> dict[str, torch.Tensor]:
    """As they are now, by parameter."""
    return {name: p.grad.clone() for name, p in learner.trainable() if p.grad is not None}


def at_step(learner: Learner) -> dict[str, torch.Tensor]:
    """Filled when a step takes them, with those of the last."""
    held: dict[str, torch.Tensor] = {}
    step = learner.optim_step

    def keep(*args, **kwargs):
        held.update(gradients(learner))
        return step(*args, **kwargs)

    learner.optim_step = keep
    return held
