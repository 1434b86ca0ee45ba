"""The cache holds keys and values: a buffer for each sequence, and finished ones for prompts that begin alike."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Shape(NamedTuple):
    """One layer's cache: heads, and the width of a key and of a value."""

    heads: int
    key: int
    value: int


class KV:
    """The keys and values of one sequence, for up to `capacity` tokens; `length` of them are filled."""

    def __init__(self, shapes: Sequence[Shape], capacity: int, dtype: torch.dtype) -> None:
        self.shapes, self.capacity, self.dtype = shapes, capacity, dtype
        self.length = 0
        memory = map_zeros(sum(s.heads * (s.key + s.value) for s in shapes) * capacity, dtype)
        self.layers: list[tuple[Tensor, Tensor]] = []  # (1, heads, capacity, width) each
        self._alike: Tensor | None = None  # (2 layers, heads, capacity, width): keys and values of each layer in turn
        if len({(shape.heads, width) for shape in shapes for width in (shape.key, shape.value)}) == 1:
            self._alike = memory.view(2 * len(shapes), shapes[0].heads, capacity, shapes[0].key)
        at = 0
        for shape in shapes:
            pair = []
            for width in (shape.key, shape.value):
                size = shape.heads * capacity * width
                pair.append(memory[at : at + size].view(1, shape.heads, capacity, width))
                at += size
            self.layers.append((pair[0], pair[1]))

    def at(self, place: int) -> Sequence[Tensor]:
        """Where the token at this place is written: (heads, width) of each layer's keys and values in turn.

        All layers at once: as many views made one by one cost more than what is written.
        """
        if self._alike is not None:
            return self._alike.select(2, place).unbind(0)
        return [part[0, :, place] for pair in self.layers for part in pair]

    def until(self, end: int) -> Sequence[Tensor]:
        """What the token before `end` sees: (1, heads, end, width) of each layer's keys and values in turn."""
        if self._alike is not None:
            return self._alike.narrow(2, 0, end).unsqueeze(1).unbind(0)
        return [part[:, :, :end] for pair in self.layers for part in pair]

    @torch.inference_mode()
    def copy_prefix(self, other: KV, length: int) -> None:
        """Take over the first `length` tokens of another sequence."""
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for to, source in zip(mine, theirs, strict=True):
                to[:, :, :length] = source[:, :, :length]
        self.length = length


def map_zeros(count: int, dtype: torch.dtype) -> Tensor:
    """Allocate so many zeros in memory that goes back to the system with the last tensor on it. The allocator would
    keep it: buffers of all lengths come and go, and what lies between two of them is of no use to a third."""
    if not count:
        return torch.empty(0, dtype=dtype)
    memory = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype, count=count)


@dataclass
class Kept:
    """A finished sequence: `ids` are the tokens whose keys and values `kv` holds, computed under `key`."""

    key: object
    ids: np.ndarray
    kv: KV
    used: int


def shared_length(a: np.ndarray, b: np.ndarray) -> int:
    """Count the ids that two sequences have in common from their start.

    >>> shared_length(np.array([1, 2, 3, 4]), np.array([1, 2, 9]))
    2
    """
    n = min(len(a), len(b))
    differ = np.flatnonzero(a[:n] != b[:n])
    return int(differ[0]) if len(differ) else n


class PrefixCache:
    """Keep finished sequences; the least recently used goes first. Room is counted in tokens."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []
        self._clock = 0

    @property
    def tokens(self) -> int:
        return sum(kept.kv.capacity for kept in self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def best(self, key: object, ids: np.ndarray) -> tuple[KV | None, int]:
        """The kept sequence that begins most like `ids`, and how many tokens they share."""
        found, length = None, 0
        for kept in self._kept:
            if kept.key == key and (n := shared_length(kept.ids, ids)) > length:
                found, length = kept, n
        if found is None:
            return None, 0
        self._clock += 1
        found.used = self._clock
        return found.kv, length

    def keep(self, key: object, ids: np.ndarray, kv: KV) -> None:
        """Keep a finished sequence, unless a longer one that begins with it is here; drop those it continues."""
        same = [kept for kept in self._kept if kept.key == key]
        if len(ids) == 0 or any(shared_length(kept.ids, ids) == len(ids) for kept in same):
            return
        shorter = [kept for kept in same if shared_length(kept.ids, ids) == len(kept.ids)]
        self._kept = [kept for kept in self._kept if not any(kept is one for one in shorter)]
        if kv.capacity > 1.25 * len(ids):  # it was made for a longer reply than came
            exact = KV(kv.shapes, len(ids), kv.dtype)
            exact.copy_prefix(kv, len(ids))
            kv = exact
        self._clock += 1
        self._kept.append(Kept(key, ids, kv, self._clock))

    def make_room(self, tokens: int, sparing: KV | None = None) -> None:
        """Drop the least recently used until `tokens` of room are freed, or nothing but `sparing` is left."""
        freed = 0
        for kept in sorted(self._kept, key=lambda kept: kept.used):
            if freed >= tokens:
                return
            if kept.kv is not sparing:
                freed += kept.kv.capacity
                self._drop([kept])

    def shrink(self, tokens: int) -> None:
        """Drop the least recently used until no more than `tokens` of room are taken."""
        self.make_room(self.tokens - tokens)

    def forget(self, keys: Iterable[object] | None = None) -> None:
        """Drop everything, or everything computed under `keys`."""
        gone = None if keys is None else set(keys)
        self._drop([kept for kept in self._kept if gone is None or kept.key in gone])

    def _drop(self, gone: list[Kept]) -> None:
        self._kept = [kept for kept in self._kept if not any(kept is one for one in gone)]
