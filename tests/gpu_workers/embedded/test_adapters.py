"""Adapter files that must not be served as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from benchmarks.tiny import HEADS, HIDDEN, KV_HEADS, LAYERS, MLP, write_tiny_adapter
from gpu_workers.embedded.adapters import Adapter, read_adapter
from gpu_workers.errors import AdapterInvalid

KV = KV_HEADS * (HIDDEN // HEADS)
LAYER_WIDTHS = {
    f"model.layers.{n}.{name}": widths
    for n in range(LAYERS)
    for name, widths in {
        "self_attn.q_proj": (HIDDEN, HIDDEN),
        "self_attn.v_proj": (HIDDEN, KV),
        "mlp.down_proj": (MLP, HIDDEN),
    }.items()
}


def read(folder: Path, max_rank: int = 64) -> Adapter:
    return read_adapter("a", str(folder), LAYER_WIDTHS, max_rank)


def test_a_plain_adapter_is_read_with_its_scale_folded_in(tmp_path: Path) -> None:
    folder = write_tiny_adapter(tmp_path, seed=1, rank=4)  # lora_alpha 8: scaled by 2
    tensors = load_file(folder / "adapter_model.safetensors")

    down, up = read(folder).pairs["model.layers.0.self_attn.q_proj"]

    place = "base_model.model.model.layers.0.self_attn.q_proj"
    assert np.allclose(down.numpy(), tensors[f"{place}.lora_A.weight"].T)
    assert np.allclose(up.numpy(), 2 * tensors[f"{place}.lora_B.weight"].T)


def test_two_adapters_are_never_the_same_instance(tmp_path: Path) -> None:
    folder = write_tiny_adapter(tmp_path, seed=1)

    assert read(folder).instance != read(folder).instance


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("use_rslora", True, "rsLoRA"),
        ("use_dora", True, "DoRA"),
        ("rank_pattern", {"q_proj": 8}, "rank pattern"),
        ("alpha_pattern", {"q_proj": 8}, "alpha pattern"),
        ("modules_to_save", ["lm_head"], "modules_to_save"),
        ("bias", "all", "bias"),
        ("fan_in_fan_out", True, "transposed"),
        ("peft_type", "IA3", "only LoRA"),
        ("r", 0, "whole rank"),
        ("init_lora_weights", "pissa", "'pissa', which changes the base"),
        ("init_lora_weights", "pissa_niter_4", "'pissa_niter_4', which changes the base"),
        ("init_lora_weights", "olora", "'olora', which changes the base"),
        ("init_lora_weights", "corda", "'corda', which changes the base"),
        ("init_lora_weights", "loftq", "'loftq', which changes the base"),
        ("init_lora_weights", "lora_ga", "'lora_ga', which changes the base"),
        ("init_lora_weights", "of next year", "'of next year', which changes the base"),
        ("init_lora_weights", ["pissa"], "which changes the base"),
        ("loftq_config", {"loftq_bits": 4}, "LoftQ rounded"),
    ],
)
def test_what_would_be_served_wrongly_is_refused(tmp_path: Path, setting: str, value: Any, words: str) -> None:
    folder = write_tiny_adapter(tmp_path, seed=1, **{setting: value})

    with pytest.raises(AdapterInvalid, match=words):
        read(folder)


@pytest.mark.parametrize("beginning", [True, False, None, "gaussian", "eva", "orthogonal"])
def test_an_adapter_that_began_plainly_is_read(tmp_path: Path, beginning: Any) -> None:
    assert read(write_tiny_adapter(tmp_path, seed=1, init_lora_weights=beginning, loftq_config={})).rank == 4


def test_files_that_are_not_an_adapter_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterInvalid, match=r"adapter_config\.json"):
        read(tmp_path / "nowhere")
    (tmp_path / "adapter_config.json").write_text("{broken")
    with pytest.raises(AdapterInvalid, match=r"adapter_config\.json"):
        read(tmp_path)


def test_tensors_must_fit_the_model(tmp_path: Path) -> None:
    folder = write_tiny_adapter(tmp_path, seed=1)
    tensors = load_file(folder / "adapter_model.safetensors")
    place = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

    save_file({**tensors, place: tensors[place][:, :-1].copy()}, folder / "adapter_model.safetensors")
    with pytest.raises(AdapterInvalid, match="shapes"):
        read(folder)

    save_file({**tensors, place: np.full_like(tensors[place], np.nan)}, folder / "adapter_model.safetensors")
    with pytest.raises(AdapterInvalid, match="finite"):
        read(folder)

    save_file({**tensors, place.replace("q_proj", "lm_head"): tensors[place]}, folder / "adapter_model.safetensors")
    with pytest.raises(AdapterInvalid, match="no layer"):
        read(folder)


def test_a_rank_above_the_largest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AdapterInvalid, match="rank 8"):
        read(write_tiny_adapter(tmp_path, seed=1, rank=8), max_rank=4)
