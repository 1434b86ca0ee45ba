"""Quantisation holds a frozen base in 4 bits, for cards where 16 do not fit: QLoRA (arXiv:2305.14314), by bitsandbytes.

The linear layers hold NormalFloat-4 with doubly quantised scales, and multiply in the base's dtype; embeddings, norms,
the head and the adapter on top are as ever.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

from core.errors import TalkbackError

NAME = "nf4"
"""What numbers computed on such a base are said to be."""


class NotQuantizable(TalkbackError):
    """A base in 4 bits was asked for, and this machine or this model cannot hold one."""

    code, status = "not_quantizable", 422


def load(folder: Path | str, dtype: torch.dtype, device: torch.device) -> Any:
    """Load the model in `folder`, quantised while it is read. Raises NotQuantizable."""
    lacking = [name for name in ("bitsandbytes", "accelerate") if importlib.util.find_spec(name) is None]
    if lacking:
        raise NotQuantizable(
            f"base_bits 4 needs {' and '.join(lacking)}: python3 -m installation install quantized, "
            "or set base_bits to 16."
        )
    how = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=NAME,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, quantization_config=how, device_map={"": device}
        )
    except (ImportError, RuntimeError, ValueError) as error:
        if "out of memory" in str(error).lower():
            raise
        raise NotQuantizable(
            f"The base cannot be held in 4 bits on {device.type}: {error}. Set base_bits to 16, or run where "
            "bitsandbytes does."
        ) from error
    for layer in model.modules():
        # On some CPUs a layer packs its weights for serving when it is first asked without a gradient, as the frozen
        # passes ask, and then lets no gradient through any more (bitsandbytes 0.50): never here.
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
    return model
