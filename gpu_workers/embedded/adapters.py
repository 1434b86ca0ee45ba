"""Adapters are read from PEFT's file layout, ready to be added to linear layers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from core.textfiles import read_text
from gpu_workers.errors import AdapterInvalid

_instances = itertools.count(1)

# Settings that change what an adapter means and that SGLang ignores or serves wrongly: none of them may be set.
UNSUPPORTED = {
    "use_rslora": "rsLoRA",
    "use_dora": "DoRA",
    "use_qalora": "QALoRA",
    "rank_pattern": "a rank pattern",
    "alpha_pattern": "an alpha pattern",
    "modules_to_save": "fully trained modules (modules_to_save)",
    "lora_bias": "LoRA biases",
    "fan_in_fan_out": "transposed weights (fan_in_fan_out)",
    "target_parameters": "target parameters",
    "trainable_token_indices": "trained tokens",
    "layer_replication": "replicated layers",
    "alora_invocation_tokens": "activated LoRA",
}

# How an adapter may have begun. Others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA, and what is not known here) take a part
# out of the base as they begin: what they learned belongs to another base than the one that is served.
PLAIN_BEGINNINGS = (None, True, False, "gaussian", "eva", "orthogonal")


@dataclass(frozen=True, eq=False)
class Adapter:
    """One loaded adapter. `instance` is never used twice, so that what was computed under a name stays apart."""

    name: str
    path: str
    rank: int
    pairs: Mapping[str, tuple[Tensor, Tensor]]  # layer name to float32 (in, r) and scaled (r, out)
    instance: int = field(default_factory=lambda: next(_instances))

    @property
    def bytes(self) -> int:
        return sum(t.numel() * t.element_size() for pair in self.pairs.values() for t in pair)


def read_adapter(
    name: str,
    folder: str,
    layers: Mapping[str, tuple[int, int]],
    max_rank: int,
) -> Adapter:
    """Read the adapter in `folder`; `layers` are those that may be adapted, with their (in, out) widths.

    Raises AdapterInvalid with one sentence when the files are broken, or would not mean here what PEFT means.
    """
    config = _config(folder)
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or rank < 1 or not isinstance(alpha, int | float):
        raise AdapterInvalid(f"{folder}: adapter_config.json needs a whole rank r and a lora_alpha.")
    if rank > max_rank:
        raise AdapterInvalid(f"{folder}: rank {rank} is above the largest that is served ({max_rank}).")
    tensors = _tensors(folder)
    halves: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        layer, half = _place(key)
        if half is None or layer not in layers:
            raise AdapterInvalid(f"{folder}: {key} belongs to no layer that can be adapted here.")
        halves.setdefault(layer, {})[half] = tensor
    pairs = {}
    for layer, found in halves.items():
        width_in, width_out = layers[layer]
        shapes = {half: tuple(tensor.shape) for half, tensor in found.items()}
        if shapes != {"A": (rank, width_in), "B": (width_out, rank)}:
            wanted = f"rank {rank} from {width_in} to {width_out}"
            raise AdapterInvalid(f"{folder}: {layer} has the shapes {shapes}, which are not {wanted}.")
        # Float32 whatever is served: PEFT computes so, and at a few rows it is four times faster than bfloat16.
        down = found["A"].float().t().contiguous()  # laid out for x @ down @ up, with the scale folded in
        up = (found["B"].float() * (alpha / rank)).t().contiguous()
        if not (down.isfinite().all() and up.isfinite().all()):
            raise AdapterInvalid(f"{folder}: {layer} holds numbers that are not finite.")
        pairs[layer] = (down, up)
    return Adapter(name=name, path=folder, rank=rank, pairs=pairs)


def _config(folder: str) -> dict[str, object]:
    try:
        config = json.loads(read_text(Path(folder) / "adapter_config.json"))
    except (OSError, ValueError) as error:
        raise AdapterInvalid(f"{folder} holds no adapter_config.json that can be read ({error}).") from error
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise AdapterInvalid(f"{folder}: only LoRA adapters are served, not {config.get('peft_type')}.")
    for setting, words in UNSUPPORTED.items():
        if config.get(setting):
            raise AdapterInvalid(f"{folder}: {words} cannot be served; train plain LoRA.")
    if (beginning := config.get("init_lora_weights")) not in PLAIN_BEGINNINGS:
        raise AdapterInvalid(
            f"{folder}: init_lora_weights is {beginning!r}, which changes the base: convert the adapter to plain LoRA "
            "with PEFT's path_initial_model_for_weight_conversion, or train one that begins plainly."
        )
    if config.get("loftq_config"):
        raise AdapterInvalid(f"{folder}: it was trained on the base that LoftQ rounded; train on the base as it is.")
    if config.get("bias", "none") != "none":
        raise AdapterInvalid(f"{folder}: trained biases cannot be served; train with bias='none'.")
    return config


def _tensors(folder: str) -> dict[str, Tensor]:
    path = Path(folder) / "adapter_model.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise AdapterInvalid(f"{path} cannot be read ({error}).") from error
    if not tensors:
        raise AdapterInvalid(f"{path} is empty.")
    return tensors


def _place(key: str) -> tuple[str, str | None]:
    """The layer a tensor belongs to and which half it is.

    >>> _place("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight")
    ('model.layers.0.mlp.up_proj', 'A')
    >>> _place("base_model.model.model.embed_tokens.lora_embedding_A")
    ('model.embed_tokens.lora_embedding_A', None)
    """
    layer = key.removeprefix("base_model.model.")
    for half in ("A", "B"):
        if layer.endswith(end := f".lora_{half}.weight"):
            return layer.removesuffix(end), half
    return layer, None
