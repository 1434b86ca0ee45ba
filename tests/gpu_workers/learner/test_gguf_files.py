"""A GGUF file holds the model's very weights, and its readers load it as the same model."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from benchmarks.tiny import HEADS, KV_HEADS, TEMPLATE
from gpu_workers.learner import gguf_files
from gpu_workers.learner.gguf_files import NotGguf


def read(path):
    """The tensors of a GGUF file by their names, as float32, and its fields."""
    reader = gguf.GGUFReader(path)
    tensors = {}
    for one in reader.tensors:
        shape = tuple(int(size) for size in reversed(one.shape))
        tensors[one.name] = gguf.quants.dequantize(one.data, one.tensor_type).reshape(shape)
    return tensors, {name: field.contents() for name, field in reader.fields.items()}


def unpermuted(weights, heads):
    """The inverse of `permuted`, worked out from its definition: row 2·i + h of a head was row h·(d) + i."""
    width = weights.shape[0] // heads
    half = width // 2
    rows = [head * width + 2 * i + side for head in range(heads) for side in range(2) for i in range(half)]
    return weights[rows]


@pytest.fixture(scope="module")
def written(tiny_model, tmp_path_factory):
    to = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    gguf_files.write(tiny_model, to, name="talkback@1")
    return to


def test_every_tensor_read_back_is_the_models_own(written, tiny_model):
    tensors, _ = read(written)
    weights = load_file(tiny_model / "model.safetensors")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    assert len(tensors) == len(weights)
    for key, tensor in weights.items():
        found = tensors[names.get_name(key, try_suffixes=(".weight",))]
        if "q_proj" in key or "k_proj" in key:
            found = unpermuted(found, HEADS if "q_proj" in key else KV_HEADS)
        assert np.array_equal(found, tensor.float().numpy()), key


def test_it_says_how_the_model_is_built_and_how_it_reads_text(written, tiny_model):
    _, fields = read(written)
    assert fields["general.architecture"] == "llama"
    assert fields["general.name"] == "talkback@1"
    assert (fields["llama.block_count"], fields["llama.attention.head_count_kv"]) == (2, KV_HEADS)
    assert fields["llama.rope.freq_base"] == 10000.0
    assert (fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]) == ("gpt2", "gpt-2")
    assert fields["tokenizer.chat_template"] == TEMPLATE
    layout = json.loads((tiny_model / "tokenizer.json").read_text())
    assert len(fields["tokenizer.ggml.tokens"]) == 512
    assert fields["tokenizer.ggml.tokens"][2] == "<|im_end|>"
    assert fields["tokenizer.ggml.token_type"][2] == gguf.TokenType.CONTROL
    assert len(fields["tokenizer.ggml.merges"]) == len(layout["model"]["merges"])
    assert fields["tokenizer.ggml.eos_token_id"] == 2


def logits(model):
    with torch.no_grad():
        return model(torch.tensor([[1, 40, 41, 42, 43]])).logits.float()


def test_transformers_load_it_as_the_same_model(written, tiny_model):
    ours = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(written.parent, gguf_file=written.name, dtype=torch.float32)
    assert torch.allclose(logits(ours), logits(theirs), atol=1e-4)
    ours, theirs = (
        AutoTokenizer.from_pretrained(tiny_model),
        AutoTokenizer.from_pretrained(written.parent, gguf_file=written.name),
    )
    text = "The quick brown fox, please."
    assert theirs(text, add_special_tokens=False).input_ids == ours(text, add_special_tokens=False).input_ids


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_weights_of_16_bits_keep_their_bits(tiny_model, tmp_path, kind):
    width = 128 if kind == "qwen3" else 16  # transformers' reader knows no other of Qwen 3
    config = AutoConfig.for_model(
        kind, vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, head_dim=width, max_position_embeddings=128, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tiny_model / name).read_bytes())
    seen = []
    gguf_files.write(folder, tmp_path / "x.gguf", name="x", tell=lambda done, total: seen.append((done, total)))

    tensors, _ = read(tmp_path / "x.gguf")
    names = gguf.get_tensor_name_map(gguf_files.ARCHITECTURES[kind], 1)
    weights = load_file(folder / "model.safetensors")
    assert seen[-1] == (len(weights), len(weights))
    for key, tensor in weights.items():
        found = tensors[names.get_name(key, try_suffixes=(".weight", ".bias"))]
        if kind == "llama" and key.split(".")[-2] in ("q_proj", "k_proj"):
            found = unpermuted(found, 4 if "q_proj" in key else 2)
        assert np.array_equal(found, tensor.float().numpy()), key
    again = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
    assert torch.allclose(logits(model.float()), logits(again), atol=1e-3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model_type": "mamba"}, "Models of the type mamba cannot be written"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "Its positions are stretched"),
    ],
)
def test_what_readers_would_take_for_something_else_is_refused_in_words(tiny_model, change, why):
    config = json.loads((tiny_model / "config.json").read_text()) | change
    layout = json.loads((tiny_model / "tokenizer.json").read_text())
    with pytest.raises(NotGguf, match=why):
        gguf_files.check(config, layout)


@pytest.mark.parametrize("pre", [{"type": "Metaspace"}, None, {"type": "Sequence", "pretokenizers": []}])
def test_a_tokenizer_that_splits_otherwise_is_refused_in_words(tiny_model, pre):
    config = json.loads((tiny_model / "config.json").read_text())
    layout = json.loads((tiny_model / "tokenizer.json").read_text()) | {"pre_tokenizer": pre}
    with pytest.raises(NotGguf, match="splits text"):
        gguf_files.check(config, layout)
