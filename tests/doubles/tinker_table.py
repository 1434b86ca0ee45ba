"""The model behind the stand-in for `tinker`: a table with a low-rank adapter, small enough to check every number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.doubles.tinker_package import (
    BadRequestError,
)

WIDTH = 16
"""Dimensions of the table's states."""


class Table:
    """logits = (x_t + mean of all before) · (W + 2 A B): seeded, causal, and the base while B is 0."""

    def __init__(self, vocabulary: int, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.tokens = torch.randn(vocabulary, WIDTH, generator=draw)  # (V, D)
        self.out = 0.3 * torch.randn(WIDTH, vocabulary, generator=draw)  # (D, V)

    def logits(self, ids: Sequence[int], adapter: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """What follows each position, (L, V)."""
        rows = self.tokens[list(ids)]
        if rows.shape[0] == 0 or max(ids) >= len(self.tokens):
            raise BadRequestError(f"{len(self.tokens)} ids are known")
        means = rows.cumsum(0) / torch.arange(1, len(rows) + 1)[:, None]
        out = self.out if adapter is None else self.out + 2 * adapter[0] @ adapter[1]
        return (rows + means) @ out


@dataclass(frozen=True)
class Saved:
    """An adapter as the service keeps it."""

    adapter: tuple[Tensor, Tensor]
    optimizer: dict[str, Any]
    rank: int
    model: str


def copied(state: dict[str, Any]) -> dict[str, Any]:
    moments = {
        number: {name: value.clone() if isinstance(value, Tensor) else value for name, value in slots.items()}
        for number, slots in state["state"].items()
    }
    return {**state, "state": moments}
