"""A sequence's keys and values, layer by layer and all layers at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core import memory
from gpu_workers.embedded.cache import KV, PrefixCache, Shape


@pytest.mark.parametrize(
    "shapes", [[Shape(3, 4, 4)] * 2, [Shape(3, 4, 5), Shape(1, 2, 2)]], ids=["alike", "each its own"]
)
def test_all_layers_at_once_are_the_layers_own_memory(shapes):
    kv = KV(shapes, capacity=6, dtype=torch.float32)

    for number, row in enumerate(kv.at(2)):
        row.fill_(number + 1)

    seen = kv.until(3)
    for number, part in enumerate(part for pair in kv.layers for part in pair):  # keys, values, keys, values
        assert (part[0, :, 2] == number + 1).all()
        assert seen[number].shape == (1, part.shape[1], 3, part.shape[3])
        assert seen[number].data_ptr() == part.data_ptr()


def test_a_buffers_memory_goes_back_to_the_system_with_it():
    def filled() -> KV:
        kv = KV([Shape(1, 1, 1)], capacity=2**20, dtype=torch.float32)  # a key and a value of 4 bytes: 8 MiB
        for part in kv.layers[0]:
            part.fill_(1)
        return kv

    filled()  # from the first block of this size that is freed on, the allocator would have the next ones in its heap
    before = memory.resident_bytes()
    kvs = [filled() for _ in range(40)]
    assert memory.resident_bytes() - before > 39 * 8 * 2**20

    # The first and the twenty-first are left, 16 MiB: in a heap, what lies between them would be there too.
    del kvs[1:20], kvs[2:]

    assert memory.resident_bytes() - before < 3 * 8 * 2**20
    assert all((part == 1).all() for kv in kvs for part in kv.layers[0])


def test_of_what_is_kept_the_least_recently_used_goes_first():
    cache = PrefixCache()
    for first in range(4):
        cache.keep("base", np.array([first, 1, 2]), KV([Shape(1, 1, 1)], 3, torch.float32))
    cache.best("base", np.array([0, 1, 9]))  # the oldest is used again

    cache.shrink(7)  # of 12 tokens: two sequences of three

    assert [cache.best("base", np.array([first, 1, 2]))[1] for first in range(4)] == [3, 0, 0, 3]
    assert cache.tokens == 6
