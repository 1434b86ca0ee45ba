"""A model of a third of a million weights that knows the words of one world and nothing else.

A word is a token. It is a Llama like any other to the engine and to the learner, so what it shows of learning it shows
of them, in minutes on one core.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

from lab.worlds.templates import short
from lab.worlds.traces import Teacher
from lab.worlds.warm_start import Plan, warm_start

UNKNOWN, END = "<unk>", "<end>"
CONTROLS = (END, "<system>", "<user>", "<assistant>", "<tool>", "<tools>")
CALL = "<call>"


@dataclass(frozen=True)
class Words:
    """What is a word in a world."""

    words: tuple[str, ...]
    phrases: Mapping[str, str]
    """What the world always says in the same words is one word. Punctuation at the end of one is none."""
    unread: str = r"(?!)"
    """What is not read: a regular expression."""
    joins: str = r"(?!)"
    """What makes one word of those on both sides of it: a regular expression."""


HIDDEN, LAYERS, HEADS, MLP, CONTEXT = 96, 3, 4, 256, 512
SPREAD = 0.05
"""Of the weights at the beginning: at 0.02 so narrow a model takes long to copy."""
THETA = 500.0
"""Of positions: an attempt is 50 words."""

PLAN = Plan(traces=12000, traces_a_step=12, rank=None, lr=3e-3, warm_up=30, micro_batch=12, at_once=2048)
"""Its warm start, half learned: 70 to 90 seconds of one core."""

RECIPE: Mapping[str, Any] = {"weights": "full", "lr": 1e-3, "beta": 0, "micro_batch": 32}
"""How it learns by playing: rewards alone, and no anchor to where it began."""


def tiny_model(
    cache: Path,
    name: str,
    words: Words,
    teacher: Teacher,
    *,
    plan: Plan = PLAN,
    told: Callable[[str], None] = print,
) -> Path:
    """Return the folder of the tiny model after its warm start in the world `name`, made in `cache` where it is not
    there yet."""
    with tempfile.TemporaryDirectory() as draft:  # it is made in no time, and an older one may be another
        base = write_base(Path(draft) / f"{name}-tiny", words)
        return warm_start(base, cache, plan, teacher, template=short(), told=told)


def write_base(folder: Path, words: Words, *, seed: int = 0) -> Path:
    """Write the model as it begins, seeded, with its tokenizer and chat template."""
    tokenizer = _tokenizer(words)
    end = tokenizer.token_to_id(END)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=HIDDEN,
        intermediate_size=MLP,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        initializer_range=SPREAD,
        rope_parameters={"rope_type": "default", "rope_theta": THETA},
        tie_word_embeddings=True,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
    )
    LlamaForCausalLM(config).save_pretrained(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "unk_token": UNKNOWN,
        "model_max_length": CONTEXT,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(options, indent=2))
    (folder / "chat_template.jinja").write_text(short())
    return folder


def _tokenizer(words: Words) -> Tokenizer:
    """Control tokens are no words: what spells one in a message is unknown."""
    every = dict.fromkeys((UNKNOWN, *words.words, *words.phrases.values()))
    tokenizer = Tokenizer(models.WordLevel({word: id for id, word in enumerate(every)}, unk_token=UNKNOWN))
    said = [normalizers.Replace(phrase, f" {word} ") for phrase, word in words.phrases.items()]
    joined = normalizers.Replace(Regex(words.joins), "")
    unread = normalizers.Replace(Regex(words.unread), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [joined, unread, *said, normalizers.Replace(Regex(r"[.,:?!](?!\S)"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in CONTROLS])
    tokenizer.add_tokens([AddedToken(CALL, special=False, normalized=False)])  # a part of what the model says
    return tokenizer
