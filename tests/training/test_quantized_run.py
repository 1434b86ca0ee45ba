"""A run whose base is held in 4 bits: where that can be, and what is said where it cannot."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from checkpoints.proofs import compare
from gpu_workers.learner import quantized
from gpu_workers.learner.learner import Learner
from training import batches, runs
from training.config import PRESETS, Recipe
from training.models import Run, Sample

RECIPE = Recipe(batch_size=1, lr=1e-2, base_bits=4)


@pytest.mark.quantized
def test_a_run_in_four_bits_ends_in_an_ordinary_adapter(ready, home, settings):
    ready(reward=1.0, teacher_prompt_ids=None)
    run = batches.fill(RECIPE.model_copy(update={"max_gap": 5.0}))  # a model of 2 layers is far from its 4 bits

    candidate = runs.train(run)

    assert Run.objects.get(pk=run.pk).error == ""
    assert candidate.probe["dtype"] == "nf4"
    assert (candidate.folder / "adapter_model.safetensors").exists()
    probe = candidate.probe
    saved = Learner(settings.MODEL, adapter_dir=candidate.folder, base_bits=4)
    assert saved.score(probe["prompt_ids"], probe["response_ids"]) == pytest.approx(probe["logprobs"], abs=1e-4)


@pytest.mark.quantized
def test_a_base_that_four_bits_take_too_far_from_the_engines_stops_the_run(ready, home):
    ready(reward=1.0, teacher_prompt_ids=None)
    run = batches.fill(RECIPE.model_copy(update={"max_gap": 0.01}))

    assert runs.train(run) is None
    assert "nats per token apart on the same weights" in Run.objects.get(pk=run.pk).error


def test_a_machine_without_bitsandbytes_is_told_so_and_the_samples_wait(ready, home, monkeypatch):
    ready(reward=1.0)
    run = batches.fill(RECIPE)
    monkeypatch.setattr(quantized.importlib.util, "find_spec", lambda name: None)

    assert runs.train(run) is None

    run = Run.objects.get(pk=run.pk)
    assert (run.status, Sample.objects.get().status) == ("failed", "ready")
    assert run.error.startswith("base_bits 4 needs bitsandbytes and accelerate")


def test_full_weights_and_four_bits_are_refused_where_they_are_written():
    with pytest.raises(ValidationError, match="only a frozen base can be held in 4 bits"):
        Recipe(base_bits=4, weights="full")


def test_the_preset_for_a_card_of_24_gb_bounds_what_a_pass_holds():
    preset = PRESETS["24gb"]

    assert (preset.base_bits, preset.micro_batch, preset.max_tokens, preset.weights) == (4, 1, 1024, "lora")


def test_a_probe_of_a_base_in_four_bits_is_held_to_its_share_and_a_wider_limit():
    # The engine serves 16 bits: it is 0.3 from the learner everywhere, and shows all of the change of 1.0.
    proof = compare([-1.0, -2.0], [-2.0, -3.0], [-1.3, -2.3], [-2.3, -3.3], dtype="nf4")
    assert proof.passed
    assert (proof.gap, proof.share) == (pytest.approx(0.3), pytest.approx(1.0))
    assert not compare([-1.0, -2.0], [-2.0, -3.0], [-1.3, -2.3], [-2.3, -3.3], dtype="bfloat16").passed
