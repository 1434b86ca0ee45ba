"""The whole step on the shapes of models that people run: tiny, random, each with its own kind of layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM

from gpu_workers.learner.branching import takes_trees
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from gpu_workers.types import Example
from tests.rounding import Rounding, assert_same, rounding_of, spread
from training.config import PRESETS, Recipe
from training.objective.updates import updates

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]

SMALL: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "SmolLM2": ("llama", {"num_hidden_layers": 2, "tie_word_embeddings": True}),
    "Qwen3": ("qwen3", {"num_hidden_layers": 2, "tie_word_embeddings": False}),  # norms on queries and keys
    "Qwen3.5": (  # three layers of gated linear attention, then one of full attention
        "qwen3_5_text",
        {
            "num_hidden_layers": 4,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
        },
    ),
}


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def model(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, more = SHAPES[request.param]
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(request.param)
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SMALL, **more), dtype=torch.float32)
    made.save_pretrained(folder)
    return folder


def logprobs(model: Any) -> list[float]:
    with torch.no_grad():
        logs = model(torch.tensor([PROMPT + RESPONSE])).logits[0].float().log_softmax(-1)
    return [float(logs[len(PROMPT) - 1 + t, token]) for t, token in enumerate(RESPONSE)]


@pytest.fixture
def rounding(model) -> Rounding:
    """How far what is said of this very model may be off."""
    return rounding_of(model)


def examples(learner: Learner) -> list[Example]:
    old = learner.score(PROMPT, RESPONSE)
    short = learner.score(PROMPT, RESPONSE[:3])
    return [
        Example(PROMPT, RESPONSE, old, teacher_prompt_ids=HINTED, reward=-1.0),
        Example(PROMPT, RESPONSE[:3], short, reward=1.0),
    ]


def test_its_log_probs_are_plain_transformers(model, rounding):
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    assert Learner(model, dtype="float32").score(PROMPT, RESPONSE) == pytest.approx(
        logprobs(plain), abs=rounding.logprob
    )


@pytest.mark.parametrize("preset", ["binary", "opd", "combined", "topk", "embedded"])
def test_every_recipe_takes_its_steps_and_moves_as_it_should(model, preset):
    learner = Learner(model, dtype="float32")
    views = [learner.score_example(example) for example in examples(learner)]
    # Adam's first step is as long as the rate: a random model is so near its teacher that a long one would overshoot.
    small = {"lr": 1e-4, "updates": 2} if preset in ("topk", "embedded") else {"lr": 1e-2, "updates": 2}
    recipe = PRESETS[preset].model_copy(update=small)

    figures = list(updates(learner, views, recipe))

    assert len(figures) == 2
    assert all(step["grad_norm"] > 0 for step in figures)
    if preset == "binary":  # blamed and praised replies begin alike, so each is measured by where it goes on
        assert sum(learner.score(PROMPT, RESPONSE)[3:]) < sum(views[0].start_logprobs.tolist()[3:])
    elif preset in ("topk", "embedded"):
        assert figures[-1]["loss"] < figures[0]["loss"]


@pytest.mark.parametrize("micro_batch", [1, 2])
def test_padding_and_company_change_nothing_but_rounding(model, micro_batch):
    """A batch of a long and a short reply gives the gradient of each alone, added up."""

    def learned(at_once: int, shaken: Callable[[torch.nn.Module], None]) -> dict[str, torch.Tensor]:
        learner = Learner(model, dtype="float32", micro_batch=at_once, seed=1)
        shaken(learner.causal)
        list(updates(learner, [learner.score_example(example) for example in examples(learner)], Recipe(lr=1e-2)))
        return {"logprobs": torch.tensor(learner.score(PROMPT, RESPONSE))}

    def as_it_is(model: torch.nn.Module) -> None:
        return None

    assert_same(learned(micro_batch, as_it_is), learned(1, as_it_is), spread(partial(learned, 1)))


def test_replies_that_begin_alike_are_read_as_if_each_were_alone(model, rounding):
    """Of four layers of Qwen3.5 three go over positions in their order, and would read one branch into another."""
    learner = Learner(model, dtype="float32", micro_batch=2)
    pairs = [(PROMPT, [9, 8, 7]), (PROMPT, [20, 21]), ([*PROMPT, 30], [31, 2])]

    alone = [sum(learner.score(*pair)) for pair in pairs]

    assert [sum(one) for one in learner.logprobs(pairs)] == pytest.approx(alone, abs=rounding.logprob)
    example = Example(PROMPT, RESPONSE, learner.score(PROMPT, RESPONSE), teacher_prompt_ids=HINTED)
    view = learner.score_example(example)
    assert view.reference_logprobs.tolist() == pytest.approx(learner.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert view.teacher_logprobs is not None
    assert view.teacher_logprobs.tolist() == pytest.approx(learner.score(HINTED, RESPONSE), abs=rounding.logprob)


def test_a_model_is_asked_for_trees_only_where_its_layers_keep_branches_apart(model, monkeypatch, rounding):
    """Where they would not, a tree gives other numbers: that is why Qwen3.5 is read in rows."""
    learner = Learner(model, dtype="float32", micro_batch=2)
    pairs = [(PROMPT, [9, 8, 7]), (PROMPT, [20, 21])]
    alone = [sum(learner.score(*pair)) for pair in pairs]

    monkeypatch.setattr("gpu_workers.learner.policy.takes_trees", lambda config: True)
    forced = [sum(one) for one in learner.logprobs(pairs)]

    is_equal = forced == pytest.approx(alone, abs=rounding.logprob)
    assert takes_trees(learner.causal.config) == is_equal


@pytest.mark.parametrize("shape", [LoraShape(rank=4, alpha=8), None], ids=["lora", "full"])
def test_what_was_learned_loads_elsewhere(model, tmp_path, shape, rounding):
    learner = Learner(model, dtype="float32", lora=shape)
    views = [learner.score_example(example) for example in examples(learner)]
    list(updates(learner, views, Recipe(lr=1e-2, distillation="vocabulary")))

    learner.save(tmp_path / "saved")

    if shape is None:
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved", dtype=torch.float32)
    else:
        base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        loaded = PeftModel.from_pretrained(base, str(tmp_path / "saved"))
    assert logprobs(loaded) == pytest.approx(learner.score(PROMPT, RESPONSE), abs=rounding.logprob)
    assert logprobs(loaded) != pytest.approx(views[0].start_logprobs.tolist(), abs=1e-3)
