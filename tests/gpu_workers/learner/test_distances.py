"""How far apart weights are, from their files: what is never multiplied out equals what is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from gpu_workers.errors import AdapterInvalid
from gpu_workers.learner.distances import by_layer

NAME = "model.layers.{layer}.self_attn.q_proj.weight"


def base(folder: Path) -> Path:
    folder.mkdir()
    save_file({NAME.format(layer=layer): torch.zeros(3, 2) for layer in (0, 1, 10)}, folder / "model.safetensors")
    return folder


def adapter(folder: Path, alpha: int = 4, **layers: tuple[list[list[float]], list[list[float]]]) -> Path:
    """Of rank 2: `l0=(B, A)` changes layer 0."""
    folder.mkdir()
    tensors = {}
    for layer, (b, a) in layers.items():
        name = "base_model.model." + NAME.format(layer=layer[1:]).removesuffix(".weight")
        tensors |= {f"{name}.lora_B.weight": torch.tensor(b), f"{name}.lora_A.weight": torch.tensor(a)}
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": alpha}))
    return folder


B, A = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0]]
# B A = [[1, 0], [0, 2], [0, 0]]; its scale is 4 / 2, so the change is [[2, 0], [0, 4], [0, 0]], of length √20.


def test_an_adapter_is_as_far_from_the_base_as_its_change_is_long(tmp_path):
    (layer,) = by_layer(adapter(tmp_path / "one", l0=(B, A)), None, base(tmp_path / "base"))

    assert (layer.layer, layer.second, layer.alike) == ("0", 0.0, None)
    assert layer.first == layer.apart == pytest.approx(20**0.5)


def test_two_adapters_that_say_the_same_in_other_matrices_are_not_apart(tmp_path):
    turned = ([[0.0, 2.0], [2.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.5, 0.0]])  # the same product
    first, second = adapter(tmp_path / "one", l0=(B, A)), adapter(tmp_path / "two", l0=turned)

    (layer,) = by_layer(first, second, base(tmp_path / "base"))

    assert layer.apart == pytest.approx(0.0, abs=1e-9)
    assert layer.alike == pytest.approx(1.0)


def test_layers_come_in_their_order_and_untouched_ones_are_left_out(tmp_path):
    first = adapter(tmp_path / "one", l10=(B, A), l1=(B, A))
    second = adapter(tmp_path / "two", l10=([[-x for x in row] for row in B], A))

    far, opposite = by_layer(first, second, base(tmp_path / "base"))

    assert (far.layer, opposite.layer) == ("1", "10")
    assert opposite.apart == pytest.approx(2 * 20**0.5)  # c − (−c)
    assert opposite.alike == pytest.approx(-1.0)


def test_a_whole_model_is_held_against_an_adapter(tmp_path):
    on = base(tmp_path / "base")
    (tmp_path / "whole").mkdir()
    change = torch.tensor([[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    save_file({NAME.format(layer=0): change}, tmp_path / "whole" / "model.safetensors")

    (layer,) = by_layer(adapter(tmp_path / "one", l0=(B, A)), tmp_path / "whole", on)

    # [[2, 0], [0, 4], [0, 0]] − [[2, 0], [0, 0], [1, 0]] = [[0, 0], [0, 4], [−1, 0]]: √17; their product is 4.
    assert layer.second == pytest.approx(5**0.5)
    assert layer.apart == pytest.approx(17**0.5)
    assert layer.alike == pytest.approx(4 / (20 * 5) ** 0.5)


def test_weights_of_another_base_are_refused_by_name(tmp_path):
    (tmp_path / "strange").mkdir()
    save_file({"other.weight": torch.zeros(2)}, tmp_path / "strange" / "model.safetensors")

    with pytest.raises(AdapterInvalid, match="strange cannot be read"):
        by_layer(tmp_path / "strange", None, base(tmp_path / "base"))
