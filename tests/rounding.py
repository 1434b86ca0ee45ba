"""How far two ways of computing the same may lie apart: measured on the processor at hand.

Processors add in orders of their own, so a tolerance that one of them keeps another misses. What any of them shows is
how far an answer moves when each weight moves by its last bit: rounding at each operation does as much to it, and that
depends on the model and not on the machine. Two ways may differ by APART of such moves. Both ways of
`gpu_workers.learner.layers` differ by 0.4 to 1.8 of them on all shapes of model; one norm that is off by a thousandth,
by more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

APART = 8.0
"""How many moves of the last bit two ways may differ by: each rounds at every operation, and a move is one rounding."""

DRAWS = 3

Numbers = Mapping[str, Tensor]


def shake(model: nn.Module, seed: int) -> None:
    """Move each weight of a model by its last bit, up or down as a coin of `seed` falls."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            signs = torch.randint(0, 2, weight.shape, generator=draw).to(weight.dtype) * 2 - 1
            weight.mul_(1 + signs * torch.finfo(weight.dtype).eps)


def spread(compute: Callable[[Callable[[nn.Module], None]], Numbers]) -> dict[str, float]:
    """By name, how far numbers move at most when the weights that they come from move by their last bit.

    `compute` is given what shakes a model, calls it on the model before it computes, and returns the numbers.
    """
    plain = compute(lambda model: None)
    moved = [compute(lambda model, seed=seed: shake(model, seed)) for seed in range(DRAWS)]  # type: ignore[misc]
    return {name: max(float((one[name] - value).abs().max()) for one in moved) for name, value in plain.items()}


def assert_same(found: Numbers, expected: Numbers, within: Mapping[str, float]) -> None:
    """Each number is within APART moves of what is expected, and all names are there."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, atol=APART * within[name], rtol=0, msg=lambda text, name=name: f"{name}: {text}"
        )


def assert_as_exact(found: Sequence[Tensor], others: Sequence[Tensor], exact: Sequence[Tensor]) -> None:
    """What is `found` in float32 is as near to float64's answer as `others`, another way in float32, are; or within the
    last bit of the largest number of all."""
    largest = max(float(value.detach().abs().max()) for value in exact)
    for mine, other, true in zip(found, others, exact, strict=True):
        theirs = float((other.double() - true).detach().abs().max())
        within = APART * max(theirs, torch.finfo(torch.float32).eps * largest)
        torch.testing.assert_close(mine.detach().double(), true.detach(), atol=within, rtol=0)


class Rounding(NamedTuple):
    """How far what a learner says of one model may be off, whatever the way it is computed."""

    logprob: float
    """Of a token's log-probability."""

    gradient: float
    """Of each number of a weight's gradient, as a share of the largest of them."""

    def assert_gradients(self, found: Numbers, expected: Numbers) -> None:
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            size = float(value.abs().max())
            torch.testing.assert_close(
                found[name], value, atol=self.gradient * size, rtol=0, msg=lambda text, name=name: f"{name}: {text}"
            )


PAIRS = [([1, 5, 6, 40], [7, 8, 9, 10, 2]), ([1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]), ([1, 9], [11, 12, 2])]


@cache
def rounding_of(folder: Path) -> Rounding:
    """Measure it with an adapter that has taken two steps, so that no half of it has a gradient of zero."""
    from gpu_workers.learner.learner import Learner

    learner = Learner(folder, dtype="float32", seed=1)
    for _ in range(2):
        learner.supervise(PAIRS)
        learner.optim_step(1e-2)
    weights = {name: weight.detach().clone() for name, weight in learner.causal.named_parameters()}

    def compute(shaken: Callable[[nn.Module], None]) -> dict[str, Tensor]:
        with torch.no_grad():
            for name, weight in learner.causal.named_parameters():
                weight.copy_(weights[name])
        shaken(learner.causal)
        found = {"logprobs": torch.tensor([value for pair in PAIRS for value in learner.score(*pair)])}
        learner.supervise(PAIRS)
        found |= {name: weight.grad.clone() for name, weight in learner.trainable() if weight.grad is not None}
        learner.optimizer.zero_grad()
        return found

    sizes = {name: float(value.abs().max()) for name, value in compute(lambda model: None).items()}
    moves = spread(compute)
    return Rounding(
        logprob=APART * moves.pop("logprobs"), gradient=APART * max(moves[name] / sizes[name] for name in moves)
    )
