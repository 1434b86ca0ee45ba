"""Write a whole model as a GGUF file, which llama.cpp and its kin load: a model folder in, one file out.

Nothing is quantised: matrices keep their dtype, and norms, which readers want in float32, are widened. Tensors pass
through memory one at a time. What readers would lay out or split otherwise than this house does is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors import safe_open

from core.errors import TalkbackError

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
"""By the model type of transformers."""

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")

PLAIN, WIDE = {torch.float16: np.float16, torch.float32: np.float32}, torch.bfloat16
"""Dtypes that numpy has, and the one that is written bit by bit."""

Tell = Callable[[int, int], None]
"""Called with how many tensors of how many are written; may raise to stop."""


class NotGguf(TalkbackError):
    """This model cannot be written as GGUF."""

    code, status = "not_gguf", 422


def write(folder: Path, to: Path, *, name: str, tell: Tell = lambda done, total: None) -> None:
    """Write the model in `folder` (safetensors, config.json, tokenizer.json) to the new file `to`. Raises NotGguf."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layout = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kind = check(config, layout)
    arch = ARCHITECTURES[kind]
    writer = gguf.GGUFWriter(to, gguf.MODEL_ARCH_NAMES[arch])
    try:
        _describe(writer, config, name)
        _tokenizer(writer, folder, config, layout)
        names = gguf.get_tensor_name_map(arch, int(config["num_hidden_layers"]))
        files = sorted(folder.glob("*.safetensors"))
        places = [(file, key) for file in files for key in _keys(file)]
        for file, key in places:
            with safe_open(file, framework="pt") as weights:  # the header alone is read
                part = weights.get_slice(key)
                shape, dtype = list(part.get_shape()), _dtype(part.get_dtype(), len(part.get_shape()), key)
            known = names.get_name(key, try_suffixes=(".weight", ".bias"))
            if known is None:
                raise NotGguf(f"GGUF has no name for the weights {key}.")
            writer.add_tensor_info(known, shape, np.dtype(np.float32), *_size(shape, dtype))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for done, (file, key) in enumerate(places, start=1):
            with safe_open(file, framework="pt") as weights:
                writer.write_tensor_data(_written(key, weights.get_tensor(key), config, kind))
            tell(done, len(places))
    finally:
        writer.close()


def check(config: Mapping[str, Any], layout: Mapping[str, Any]) -> str:
    """The model's type, as far as it can be written as GGUF; `layout` is its tokenizer.json. Raises NotGguf."""
    kind = str(config.get("model_type"))
    if kind not in ARCHITECTURES:
        raise NotGguf(
            f"Models of the type {kind} cannot be written as GGUF here: {', '.join(ARCHITECTURES)} can. Export it "
            "merged, and convert it with llama.cpp's own tool."
        )
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    stretch = rope.get("rope_type", rope.get("type", "default"))
    if stretch != "default":
        raise NotGguf(f"Its positions are stretched ({stretch}), which is not written as GGUF here. Export it merged.")
    _splitting(layout)
    return kind


def permuted(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key matrix as GGUF's Llama has them: the two halves of each head, which transformers keeps
    apart, by turns. (heads · 2 · d, ...) in and out."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _keys(file: Path) -> list[str]:
    with safe_open(file, framework="pt") as weights:
        return sorted(weights.keys())


def _dtype(name: str, dimensions: int, key: str) -> gguf.GGMLQuantizationType:
    types = gguf.GGMLQuantizationType
    known = {"F32": types.F32, "F16": types.F16, "BF16": types.BF16}
    if name not in known:
        raise NotGguf(f"The weights {key} are {name}; float32, float16 and bfloat16 can be written.")
    return types.F32 if dimensions < 2 else known[name]


def _size(shape: list[int], dtype: gguf.GGMLQuantizationType) -> tuple[int, gguf.GGMLQuantizationType]:
    """Bytes of a tensor, and its type."""
    width = 4 if dtype == gguf.GGMLQuantizationType.F32 else 2
    return width * int(np.prod(shape)), dtype


def _written(key: str, tensor: torch.Tensor, config: Mapping[str, Any], kind: str) -> np.ndarray:
    """A tensor as the file holds it, its bits unchanged; what has one dimension is widened to float32."""
    if tensor.dim() < 2:
        data = tensor.float().numpy()
    else:
        data = tensor.view(torch.int16).numpy() if tensor.dtype == WIDE else tensor.numpy()
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(key.split(".")[-2])
    if kind == "llama" and heads is not None:
        data = permuted(data, int(config.get(heads) or config["num_attention_heads"]))
    return np.ascontiguousarray(data)


def _describe(writer: gguf.GGUFWriter, config: Mapping[str, Any], name: str) -> None:
    heads, hidden = int(config["num_attention_heads"]), int(config["hidden_size"])
    width = int(config.get("head_dim") or hidden // heads)
    rope = config.get("rope_parameters") or {}
    writer.add_name(name)
    writer.add_context_length(int(config["max_position_embeddings"]))
    writer.add_embedding_length(hidden)
    writer.add_block_count(int(config["num_hidden_layers"]))
    writer.add_feed_forward_length(int(config["intermediate_size"]))
    writer.add_head_count(heads)
    writer.add_head_count_kv(int(config.get("num_key_value_heads") or heads))
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0))
    writer.add_layer_norm_rms_eps(float(config["rms_norm_eps"]))
    writer.add_vocab_size(int(config["vocab_size"]))


def _tokenizer(writer: gguf.GGUFWriter, folder: Path, config: Mapping[str, Any], layout: Mapping[str, Any]) -> None:
    """The vocabulary by its ids, what is left of it filled up, the merges, the special tokens, the chat template."""
    size = int(config["vocab_size"])
    tokens = [f"[PAD{at}]" for at in range(size)]
    types = [int(gguf.TokenType.UNUSED)] * size
    for token, at in layout["model"]["vocab"].items():
        tokens[at], types[at] = token, int(gguf.TokenType.NORMAL)
    for added in layout.get("added_tokens") or ():
        sort = gguf.TokenType.CONTROL if added.get("special") else gguf.TokenType.USER_DEFINED
        tokens[added["id"]], types[added["id"]] = added["content"], int(sort)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_splitting(layout))
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    gguf.SpecialVocab(folder, load_merges=True, n_vocab=size).add_to_gguf(writer, quiet=True)


def _splitting(layout: Mapping[str, Any]) -> str:
    """GGUF's name for how this tokenizer splits a text before it merges. Raises NotGguf where it has none."""
    known = NotGguf("Its tokenizer splits text in a way that is not written as GGUF here. Export it merged.")
    before = layout.get("pre_tokenizer") or {}
    steps = before["pretokenizers"] if before.get("type") == "Sequence" else [before]
    if layout["model"].get("type") != "BPE" or not steps or steps[-1].get("type") != "ByteLevel":
        raise known
    if len(steps) == 1 and steps[0].get("use_regex", True) and not layout.get("normalizer"):
        return "gpt-2"
    first = steps[0]
    if len(steps) == 2 and first.get("type") == "Digits" and first.get("individual_digits"):
        return "smollm"
    if len(steps) == 2 and first.get("type") == "Split" and not steps[1].get("use_regex", True):
        said = first["pattern"].get("Regex")
        if said in (LLAMA_3, QWEN_2):
            return "llama-bpe" if said == LLAMA_3 else "qwen2"
    raise known
