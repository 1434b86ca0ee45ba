"""A language model small enough for any test: the layout of a Hugging Face folder, seeded weights, no torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, HIDDEN, LAYERS, HEADS, KV_HEADS, MLP, CONTEXT = 512, 64, 2, 4, 2, 128, 2048
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

TEXT = """user system assistant tool The quick brown fox jumps over the lazy dog. What is the capital of France?
The capital of France is Paris. Please say hello to the captain and answer in one short sentence, like a pirate
would. It should have said that two and two are four, not five; next time, do the sum before you reply. Thank you
for the correction: here is a better answer. She sells sea shells by the sea shore while the weather is fine.
"""


def write_tiny_model(folder: Path, *, seed: int = 0) -> Path:
    """Write a 2-layer float32 Llama and a byte-level tokenizer with a ChatML template; another seed, other weights."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(folder)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "dtype": "float32",
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})
    )
    save_file(_weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _weights(seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, scale: float) -> np.ndarray:
        return (draw.standard_normal((rows, columns)) * scale).astype(np.float32)

    kv = KV_HEADS * (HIDDEN // HEADS)
    weights = {"model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN, 1.0)}
    for n in range(LAYERS):
        layer = f"model.layers.{n}"
        weights |= {
            f"{layer}.self_attn.q_proj.weight": matrix(HIDDEN, HIDDEN, 0.2),
            f"{layer}.self_attn.k_proj.weight": matrix(kv, HIDDEN, 0.2),
            f"{layer}.self_attn.v_proj.weight": matrix(kv, HIDDEN, 0.2),
            f"{layer}.self_attn.o_proj.weight": matrix(HIDDEN, HIDDEN, 0.2),
            f"{layer}.mlp.gate_proj.weight": matrix(MLP, HIDDEN, 0.2),
            f"{layer}.mlp.up_proj.weight": matrix(MLP, HIDDEN, 0.2),
            f"{layer}.mlp.down_proj.weight": matrix(HIDDEN, MLP, 0.1),
            f"{layer}.input_layernorm.weight": np.ones(HIDDEN, np.float32),
            f"{layer}.post_attention_layernorm.weight": np.ones(HIDDEN, np.float32),
        }
    weights["model.norm.weight"] = np.ones(HIDDEN, np.float32)
    weights["lm_head.weight"] = matrix(VOCABULARY, HIDDEN, 0.2)
    return weights


def _write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT] * 2, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<|im_start|>",
                "eos_token": "<|im_end|>",
                "pad_token": "<|im_end|>",
                "unk_token": "<|endoftext|>",
                "clean_up_tokenization_spaces": False,
                "model_max_length": CONTEXT,
                "chat_template": TEMPLATE,
            },
            indent=2,
        )
    )
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def write_tiny_adapter(folder: Path, *, seed: int, rank: int = 4, scale: float = 0.3, **config: object) -> Path:
    """Write a random LoRA adapter of the tiny model in PEFT's file layout, big enough to change what is said.

    `config` overrides entries of adapter_config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(1000 + seed)
    kv = KV_HEADS * (HIDDEN // HEADS)
    widths = {
        "self_attn.q_proj": (HIDDEN, HIDDEN),
        "self_attn.v_proj": (HIDDEN, kv),
        "mlp.down_proj": (MLP, HIDDEN),
    }
    tensors = {}
    for n in range(LAYERS):
        for name, (width_in, width_out) in widths.items():
            place = f"base_model.model.model.layers.{n}.{name}"
            for half, shape in (("A", (rank, width_in)), ("B", (width_out, rank))):
                tensors[f"{place}.lora_{half}.weight"] = (draw.standard_normal(shape) * scale).astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "tiny",
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "target_modules": [name.rpartition(".")[2] for name in widths],
        "bias": "none",
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings | config, indent=2))
    return folder
