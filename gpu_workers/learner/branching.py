"""Branching packs rows that begin alike into one tree, so that what they share goes through a model once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
    """Tell whether every layer of a model looks at what a mask lets it see and at nothing else. Gated linear attention,
    as Qwen3.5 has, goes over positions in their order, and a sliding window counts them by their order: there one
    branch would read another. A model that does not say what its layers are is known by its type, or not at all."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return all(kind == "full_attention" for kind in kinds)
    return bool(config.model_type == "llama")


def together(
    pairs: Sequence[Pair], *, rows: int, positions: int | None = None, branches: bool = True
) -> list[list[int]]:
    """Group the pairs that go through a model together, by place, those that begin alike beside each other.

    `rows` is how many of the longest there is room for: at most so many go in rows of their own, of `positions` in all
    at most where that is given and they are several, or as one tree that takes no more, where `branches` may be kept
    apart. So what begins alike goes together even where one row at a time is all there is room for.

    >>> together([([1, 2, 3], [4]), ([7], [8]), ([1, 2, 3], [5, 6])], rows=1)  # the first as a part of the third's row
    [[0], [2], [1]]
    >>> together([([1, 2, 3], [4]), ([1, 2, 3, 4, 5, 6], [7])], rows=1)
    [[0, 1]]
    """
    ids = [[*prompt, *answer] for prompt, answer in pairs]
    room = min(LONGEST, rows * max(map(len, ids), default=0))
    groups: list[list[int]] = []
    apart = size = width = 0  # of the last group: positions in rows, in a tree, and in the longest row
    for at in sorted(range(len(ids)), key=ids.__getitem__):
        length = len(ids[at])
        if groups:
            shared = _alike(ids[groups[-1][-1]], ids[at])  # in this order nothing before shares more
            count, grown = len(groups[-1]) + 1, size + length - shared
            fits = count <= rows and (positions is None or count * max(width, length) <= positions)
            if fits or (branches and grown <= min(room, WORTH * (apart + length))):
                groups[-1].append(at)
                apart, size, width = apart + length, grown, max(width, length)
                continue
        groups.append([at])
        apart = size = width = length
    return groups


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@dataclass(frozen=True)
class Tree:
    """Pack pairs into one row of L positions; each sees its ancestors only and counts them for its place, so that its
    numbers are those it has in a row of its own."""

    ids: Tensor  # (1, L)
    places: Tensor  # (1, L) how many ancestors each has
    parents: Sequence[int]  # L of them; −1: none
    predicting: Tensor  # (N,) the positions that predict the answers' tokens, pair after pair

    @cached_property
    def sees(self) -> Tensor:
        """(1, 1, L, L) bool; as large as it is, it is made of a tree that is worth it."""
        sees = torch.eye(len(self.parents), dtype=torch.bool)
        for at, parent in enumerate(self.parents):
            if parent >= 0:
                sees[at] |= sees[parent]
        return sees[None, None]

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
        return cls(torch.tensor([ids]), torch.tensor([places]), parents, torch.tensor(predicting))
