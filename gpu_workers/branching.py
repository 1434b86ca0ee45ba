"""Rows that begin alike, as one tree: what they share goes through a model once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Pair = tuple[Sequence[int], Sequence[int]]
"""The token ids of a prompt, and of the answer that is wanted."""


LONGEST = 2048
"""Positions that a tree may have: its mask is as large as their square, and attention passes over none of it."""

WORTH = 0.9
"""A tree has at most this share of the positions that its pairs have in rows of their own, padding among them."""


def takes_trees(config: Any) -> bool:
    """Whether every layer of a model looks at what a mask lets it see and at nothing else. Gated linear attention, as
    Qwen3.5 has, goes over positions in their order, and a sliding window counts them by their order: there one branch
    would read another. A model that does not say what its layers are is known by its type, or not at all."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return bool(config.model_type == "llama")


@dataclass(frozen=True)
class Tree:
    """Pairs in one row of L positions; each sees its ancestors only and counts them for its place, so that its
    numbers are those it has in a row of its own."""

    ids: Tensor  # (1, L)
    places: Tensor  # (1, L) how many ancestors each has
    sees: Tensor  # (1, 1, L, L) bool
    predicting: Tensor  # (N,) the positions that predict the answers' tokens, pair after pair

    def is_worth(self, pairs: Sequence[Pair]) -> bool:
        """Whether these pairs, of which it was made, are better read as a tree than as rows."""
        width = max(len(prompt) + len(answer) for prompt, answer in pairs)
        return self.ids.shape[1] <= min(LONGEST, WORTH * width * len(pairs))

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Tree:
        """
        >>> Tree.of([([5, 6], [7]), ([5], [8])]).ids  # 5 once; then 6 and 7, and 8
        tensor([[5, 6, 7, 8]])
        """
        ids: list[int] = []
        parents: list[int] = []
        places: list[int] = []
        known: dict[tuple[int, int], int] = {}
        predicting: list[int] = []
        for prompt, answer in pairs:
            at = -1
            for place, token in enumerate((*prompt, *answer)):
                if place >= len(prompt):
                    predicting.append(at)
                if (at, token) not in known:
                    known[at, token] = len(ids)
                    ids.append(token)
                    parents.append(at)
                    places.append(place)
                at = known[at, token]
        sees = torch.eye(len(ids), dtype=torch.bool)
        for at, parent in enumerate(parents):
            if parent >= 0:
                sees[at] |= sees[parent]
        return cls(torch.tensor([ids]), torch.tensor([places]), sees[None, None], torch.tensor(predicting))
