"""Other architectures than Llama, and the real small model: the packed forward gives the model's own numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model

from gpu_workers.embedded.adapters import read_adapter
from gpu_workers.embedded.model import Model, Piece, Unservable
from tests.rounding import assert_same, spread

IDS = [(n * 37) % 90 + 5 for n in range(40)]
SMALL: dict[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
}


def write(folder: Path, config: Any) -> str:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():  # the default scale gives logits too flat to tell anything
        torch.nn.init.normal_(parameter, std=0.3) if parameter.ndim > 1 else None
    model.save_pretrained(folder)
    return str(folder)


def in_bites(model: Model, ids: list[int], bites: tuple[int, ...]) -> torch.Tensor:
    """Logits (T, V), reading the prompt in pieces of these sizes."""
    kv, at, rows = model.new_kv(len(ids)), 0, []
    for size in bites:
        rows.append(model.forward([Piece(ids[at : at + size], at, kv)], list(range(size))))
        at += size
    assert at == len(ids)
    return torch.cat(rows)


def own(folder: str, ids: list[int], shaken: Callable[[torch.nn.Module], None] | None = None) -> torch.Tensor:
    """What transformers says, in one go."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if shaken is not None:
        shaken(model)
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids])).logits[0]


def spread_of(folder: str, ids: list[int]) -> dict[str, float]:
    """How far those logits move where the weights move by their last bit."""
    return spread(lambda shaken: {"logits": own(folder, ids, shaken)})


CONFIGS: dict[str, Callable[[], Any]] = {
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "qwen3": lambda: transformers.Qwen3Config(**SMALL, tie_word_embeddings=True),
    "mistral, sliding window": lambda: transformers.MistralConfig(**SMALL, sliding_window=6),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SMALL, sliding_window=8, query_pre_attn_scalar=8),
    "phi3": lambda: transformers.Phi3Config(**SMALL, pad_token_id=0),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_reading_in_bites_gives_the_models_own_logits(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path, CONFIGS[name]())

    logits = in_bites(Model(folder, "float32"), IDS, (7, 1, 20, 1, 1, 10))

    assert_same({"logits": logits}, {"logits": own(folder, IDS)}, spread_of(folder, IDS))


@pytest.mark.parametrize(
    "config",
    [
        lambda: transformers.Gemma2Config(**SMALL, query_pre_attn_scalar=8),  # soft caps
        lambda: transformers.MambaConfig(vocab_size=128, hidden_size=32, num_hidden_layers=2),  # no attention
    ],
    ids=["gemma2", "mamba"],
)
def test_a_model_that_cannot_be_served_is_refused_when_it_is_loaded(config: Callable[[], Any], tmp_path: Path) -> None:
    with pytest.raises(Unservable):
        Model(write(tmp_path, config()), "float32")


def test_sequences_of_one_forward_do_not_see_each_other(tmp_path: Path) -> None:
    folder = write(tmp_path, CONFIGS["qwen3"]())
    model = Model(folder, "float32")
    one, two = IDS[:11], IDS[20:34]

    kv_one, kv_two = model.new_kv(11), model.new_kv(14)
    model.forward([Piece(one[:10], 0, kv_one)], [9])
    logits = model.forward([Piece(one[10:], 10, kv_one), Piece(two, 0, kv_two)], [0, 14])

    for row, ids in zip(logits, (one, two), strict=True):
        assert_same({"logits": row}, {"logits": own(folder, ids)[-1]}, spread_of(folder, ids))


@pytest.mark.real_model
def test_the_real_model_and_an_adapter_on_every_layer_give_the_learners_numbers(
    smol_model: Path, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    plain = transformers.AutoModelForCausalLM.from_pretrained(smol_model, dtype=torch.float32).eval()
    adapted = get_peft_model(plain, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:  # as it would be after some steps
            torch.nn.init.normal_(parameter, std=0.02)
    adapted.save_pretrained(str(tmp_path))
    prompt, reply = [1, 4093, 198, 1780, 314, 260, 3575], [504, 3575, 282, 4649, 314, 7042, 30, 2]

    model = Model(str(smol_model), "float32")
    layers = {name: (linear.in_features, linear.out_features) for name, linear in model.linears.items()}
    adapter = read_adapter("a", str(tmp_path), layers, 64)
    ids = prompt + reply
    ours = []
    for chosen in (None, adapter):
        kv = model.new_kv(len(ids))
        rows = [model.forward([Piece(prompt, 0, kv, chosen)], [len(prompt) - 1])]
        rows += [model.forward([Piece([i], len(prompt) + n, kv, chosen)], [0]) for n, i in enumerate(reply[:-1])]
        ours.append(torch.cat(rows).log_softmax(-1).gather(1, torch.tensor(reply)[:, None]))

    with torch.no_grad():
        learner = adapted(input_ids=torch.tensor([ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        with adapted.disable_adapter():
            base = adapted(input_ids=torch.tensor([ids])).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    for mine, theirs in zip(ours, (base, learner), strict=True):
        assert torch.allclose(mine, theirs.gather(1, torch.tensor(reply)[:, None]), atol=1e-3)
    assert not torch.allclose(ours[0], ours[1], atol=0.1)
