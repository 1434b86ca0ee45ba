"""Which adapters SGLang's stacked layers can take: the table of what it was seen or read to do with each."""

from __future__ import annotations

import pytest

from gpu_workers.servers.stacks import find_torn

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
BLOCK = tuple(f"layers.0.{part}" for part in PARTS)


@pytest.mark.parametrize(
    "adapted",
    [PARTS, ("q_proj", "v_proj"), ("gate_proj",), ("o_proj", "down_proj"), ("q_proj", "k_proj", "v_proj"), ()],
)
def test_these_can_be_served(adapted):
    assert find_torn([f"layers.0.{part}" for part in adapted], BLOCK) is None


@pytest.mark.parametrize(
    ("adapted", "lacks"),
    [
        (("k_proj",), ("k_proj", "q_proj")),
        (("v_proj",), ("v_proj", "q_proj")),
        (("q_proj",), ("q_proj", "v_proj")),
        (("q_proj", "k_proj"), ("k_proj", "v_proj")),
        (("k_proj", "v_proj"), ("k_proj", "q_proj")),
        (("o_proj", "up_proj"), ("up_proj", "gate_proj")),
    ],
)
def test_of_these_it_misses_a_part(adapted, lacks):
    assert find_torn([f"layers.0.{part}" for part in adapted], BLOCK) == tuple(f"layers.0.{part}" for part in lacks)


def test_another_block_does_not_help():
    assert find_torn(["layers.1.v_proj", "layers.0.q_proj"], [*BLOCK, "layers.1.q_proj", "layers.1.v_proj"]) == (
        "layers.0.q_proj",
        "layers.0.v_proj",
    )


def test_a_model_without_a_gate_needs_none():
    assert find_torn(["layers.0.up_proj"], ["layers.0.up_proj", "layers.0.down_proj"]) is None
