"""A policy's files: readable by other tools, gone on from, and never written over."""

from __future__ import annotations

import json

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from gpu_workers.errors import AdapterInvalid
from gpu_workers.learner import policy, policy_files
from gpu_workers.learner.learner import Learner
from gpu_workers.learner.policy import LoraShape
from tests.gpu_workers.learner.examples import PROMPT, RESPONSE, batch
from training.config import Recipe
from training.objective.updates import updates

RECIPE = Recipe(distillation="vocabulary", lr=1e-2)


def test_any_other_tool_can_load_the_adapter(learner, tiny_model, tmp_path, rounding):
    list(updates(learner, batch(learner), RECIPE))

    learner.save(tmp_path / "adapter")

    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    plain = PeftModel.from_pretrained(base, str(tmp_path / "adapter"))
    logits = plain(input_ids=torch.tensor([PROMPT + RESPONSE])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(expected.tolist(), abs=rounding.logprob)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (16, 32, "LORA")


def test_a_checkpoint_holds_safetensors_and_json_only(learner, tmp_path):
    list(updates(learner, batch(learner), RECIPE))

    learner.save(tmp_path / "adapter")

    files = [path for path in (tmp_path / "adapter").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".safetensors", ".json"}
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


@pytest.mark.parametrize("shape", [LoraShape(), None], ids=["lora", "full"])
def test_going_on_from_a_checkpoint_is_as_if_one_had_never_stopped(tiny_model, tmp_path, shape, rounding):
    def fresh(folder=None):
        return Learner(tiny_model, dtype="float32", lora=shape, adapter_dir=folder, seed=5)

    straight = fresh()
    views = batch(straight)
    recipe = Recipe(distillation="vocabulary", lr=1e-2, updates=2)
    list(updates(straight, views, recipe))
    straight.save(tmp_path / "half")
    list(updates(straight, views, recipe))

    resumed = fresh(tmp_path / "half")
    assert resumed.steps == 2
    list(updates(resumed, views, recipe))

    assert resumed.score(PROMPT, RESPONSE) == pytest.approx(straight.score(PROMPT, RESPONSE), abs=rounding.logprob)


def test_full_weights_are_written_as_a_model_and_keep_their_base(tiny_model, tmp_path, rounding):
    learner = Learner(tiny_model, lora=None)
    base = learner.score(PROMPT, RESPONSE)
    list(updates(learner, batch(learner), Recipe(lr=1e-3, weights="full")))

    learner.save(tmp_path / "full")

    assert learner.score(PROMPT, RESPONSE, adapter=False) == pytest.approx(base, abs=rounding.logprob)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "full", dtype=torch.float32)
    logits = plain(input_ids=torch.tensor([PROMPT + RESPONSE])).logits[0, len(PROMPT) - 1 : -1]
    expected = logits.log_softmax(-1).gather(-1, torch.tensor(RESPONSE)[:, None]).squeeze(-1)
    assert learner.score(PROMPT, RESPONSE) == pytest.approx(expected.tolist(), abs=rounding.logprob)


def test_a_checkpoint_is_never_written_over(learner, tmp_path):
    learner.save(tmp_path / "adapter")

    with pytest.raises(FileExistsError):
        learner.save(tmp_path / "adapter")


def test_a_save_that_fails_leaves_nothing_behind(learner, tmp_path, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(policy_files, "_flush", full)

    with pytest.raises(OSError, match="No space left"):
        learner.save(tmp_path / "adapter")
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_that_cannot_be_read_is_named(tiny_model, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "adapter_config.json").write_text("{}")

    with pytest.raises(AdapterInvalid, match="broken"):
        Learner(tiny_model, adapter_dir=tmp_path / "broken")


def test_an_adapter_without_its_optimiser_state_is_not_half_resumed(learner, tiny_model, tmp_path):
    from safetensors.torch import load_file, save_file

    list(updates(learner, batch(learner), RECIPE))
    learner.save(tmp_path / "adapter")
    state = load_file(tmp_path / "adapter" / policy_files.OPTIMIZER_FILE)
    save_file(dict(list(state.items())[1:]), tmp_path / "adapter" / policy_files.OPTIMIZER_FILE)

    with pytest.raises(AdapterInvalid, match="optimiser state"):
        Learner(tiny_model, adapter_dir=tmp_path / "adapter")


def test_the_dtype_is_probed_or_told():
    cpu = torch.device("cpu")

    assert policy.chosen_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
    assert policy.chosen_dtype("float32", cpu) is torch.float32
    with pytest.raises(ValueError, match="one of auto"):
        policy.chosen_dtype("int3", cpu)


def test_nothing_but_weights_lies_beside_an_adapter(tiny_model, tmp_path):
    """SGLang reads every safetensors file of an adapter's folder: the optimiser's moments took the weights' place."""
    learner = Learner(tiny_model, dtype="float32")
    for _, parameter in learner.trainable():
        parameter.grad = torch.ones_like(parameter)
    learner.optim_step(1e-3)

    learner.save(tmp_path / "adapter")

    assert [file.name for file in (tmp_path / "adapter").glob("*.safetensors")] == ["adapter_model.safetensors"]
    assert Learner(tiny_model, adapter_dir=tmp_path / "adapter", dtype="float32").steps == 1  # and they are found again
