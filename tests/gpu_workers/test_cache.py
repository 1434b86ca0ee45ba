"""A sequence's keys and values, layer by layer and all layers at once."""

from __future__ import annotations

import pytest
import torch

from gpu_workers.embedded.cache import KV, Shape


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
