"""A base in 4 bits, where bitsandbytes runs; it has kernels for CPUs too, and no GPU was at hand."""

from __future__ import annotations

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gpu_workers.learner import quantized
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.quantized import NotQuantizable
from gpu_workers.types import Example
from training.config import Recipe
from training.objective.updates import objective, updates

PROMPT, HINTED, RESPONSE = [1, 5, 6, 40], [1, 5, 6, 40, 77, 78, 79], [7, 8, 9, 10, 2]
RECIPE = Recipe(lr=1e-2, updates=2)


@pytest.fixture
def learner(tiny_model):
    return Learner(tiny_model, dtype="float32", base_bits=4)


def view(learner, **fields):
    return learner.score_example(Example(PROMPT, RESPONSE, learner.score(PROMPT, RESPONSE), **fields))


@pytest.mark.quantized
def test_the_linear_layers_take_four_bits_and_the_rest_what_it_took(learner):
    kinds = {name: parameter.dtype for name, parameter in learner.model.named_parameters()}

    assert {kind for name, kind in kinds.items() if "base_layer" in name} == {torch.uint8}
    assert {kind for name, kind in kinds.items() if "lora" in name} == {torch.float32}
    assert kinds["base_model.model.model.embed_tokens.weight"] == torch.float32
    packed = sum(p.numel() for name, p in learner.model.named_parameters() if "base_layer" in name)
    # 2 layers of q, o (64·64), k, v (64·32), gate, up, down (64·128), two weights a byte: 2 · 36864 / 2
    assert packed == 36864
    assert learner.precision == "nf4"


@pytest.fixture
def rounded(tiny_model, tmp_path):
    """The same model in 32 bits, its linear layers as 4 bits hold them."""
    import bitsandbytes.functional as rounding

    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    for name, layer in plain.named_modules():
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            packed, state = rounding.quantize_4bit(layer.weight.data, quant_type="nf4", compress_statistics=True)
            layer.weight.data = rounding.dequantize_4bit(packed, state)
    plain.save_pretrained(tmp_path / "rounded")
    return tmp_path / "rounded"


@pytest.mark.quantized
def test_the_numbers_are_those_of_the_rounded_weights(learner, rounded, tiny_model):
    plain = Learner(rounded, dtype="float32").score(PROMPT, RESPONSE)

    assert learner.score(PROMPT, RESPONSE) == pytest.approx(plain, abs=1e-4)
    assert plain != pytest.approx(Learner(tiny_model, dtype="float32").score(PROMPT, RESPONSE), abs=1e-2)


@pytest.mark.quantized
def test_the_gradient_is_that_on_the_rounded_weights(learner, rounded, tmp_path):
    list(updates(learner, [view(learner, reward=1.0)], RECIPE))  # away from where half of an adapter's gradient is zero
    learner.save(tmp_path / "adapter")
    plain = Learner(rounded, adapter_dir=tmp_path / "adapter", dtype="float32")

    for one in (learner, plain):
        one.forward_backward([view(one, reward=-1.0, teacher_prompt_ids=HINTED)], objective(RECIPE))

    expected = {name: parameter.grad for name, parameter in plain.trainable()}
    for name, parameter in learner.trainable():
        size = float(expected[name].abs().max())
        assert size > 0
        assert float((parameter.grad - expected[name]).abs().max()) < 1e-3 * size, name


@pytest.mark.quantized
@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_a_step_moves_a_reply_as_it_was_judged_and_the_base_stays(learner, reward):
    before, base = learner.score(PROMPT, RESPONSE), learner.score(PROMPT, RESPONSE, adapter=False)

    list(updates(learner, [view(learner, reward=reward)], RECIPE))

    assert (sum(learner.score(PROMPT, RESPONSE)) - sum(before)) * reward > 0
    assert learner.score(PROMPT, RESPONSE, adapter=False) == base


@pytest.mark.quantized
def test_a_distribution_is_distilled_on_it_too(learner):
    looked = view(learner, teacher_prompt_ids=HINTED)
    recipe = RECIPE.model_copy(update={"distillation": "vocabulary", "updates": 4})

    figures = list(updates(learner, [looked], recipe))

    assert figures[-1]["distillation_loss"] < figures[0]["distillation_loss"]


@pytest.mark.quantized
def test_its_adapter_loads_on_a_base_in_sixteen_bits(learner, tiny_model, tmp_path):
    list(updates(learner, [view(learner, reward=1.0)], RECIPE))
    learner.save(tmp_path / "adapter")

    resumed = Learner(tiny_model, adapter_dir=tmp_path / "adapter", dtype="float32", base_bits=4)
    assert resumed.score(PROMPT, RESPONSE) == pytest.approx(learner.score(PROMPT, RESPONSE), abs=1e-5)
    assert resumed.steps == 2
    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    assert PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).active_adapter == "default"


def test_what_is_missing_is_named(tiny_model, monkeypatch):
    monkeypatch.setattr(quantized.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(
        NotQuantizable, match="needs bitsandbytes and accelerate: python3 -m installation install quantized"
    ):
        Learner(tiny_model, base_bits=4)


def test_a_device_without_kernels_is_said_to_have_none(tiny_model, monkeypatch):
    def refuses(*args, **kwargs):
        raise ValueError("no kernel for this device")

    monkeypatch.setattr(quantized.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(quantized, "BitsAndBytesConfig", dict)
    monkeypatch.setattr(quantized.AutoModelForCausalLM, "from_pretrained", refuses)
    with pytest.raises(NotQuantizable, match="cannot be held in 4 bits on cpu: no kernel for this device"):
        Learner(tiny_model, base_bits=4)


def test_full_weights_are_never_quantised(tiny_model):
    with pytest.raises(ValueError, match="only a frozen base"):
        Learner(tiny_model, lora=None, base_bits=4)
