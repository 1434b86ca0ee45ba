"""Stacks are layers that SGLang keeps as one matrix, which an adapter must then cover together.

It stacks a block's q, k and v, and its gate and up, and an adapter's parts with them: by q_proj and by gate_proj it
finds the others. Where it does not find what it looks for, version 0.5.23 refuses the adapter, or takes it and ends,
as a whole server, at the first request that names it.
"""

from __future__ import annotations

from collections.abc import Collection

NEEDED = {"q_proj": ("v_proj",), "k_proj": ("q_proj", "v_proj"), "v_proj": ("q_proj",), "up_proj": ("gate_proj",)}
"""Which other layers of its block have to be adapted where this one is."""


def find_torn(adapted: Collection[str], layers: Collection[str]) -> tuple[str, str] | None:
    """Find a layer of `adapted`, and one of `layers` without which SGLang cannot serve it; None: it can serve them all.

    What the model itself does not have, as a gate, nothing is stacked with.

    >>> block = [f"model.layers.0.self_attn.{part}_proj" for part in "qkvo"]
    >>> find_torn([block[1]], block)
    ('model.layers.0.self_attn.k_proj', 'model.layers.0.self_attn.q_proj')
    >>> find_torn([block[0], block[2]], block), find_torn([block[3]], block)
    (None, None)
    """
    for layer in sorted(adapted):
        block, _, part = layer.rpartition(".")
        for other in (f"{block}.{needed}" for needed in NEEDED.get(part, ())):
            if other in layers and other not in adapted:
                return layer, other
    return None
