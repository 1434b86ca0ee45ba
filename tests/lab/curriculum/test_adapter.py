"""The adapter in the repository: small, readable by plain PEFT, trained on the prompts that are served, and good."""

from __future__ import annotations

import json

import pytest
from safetensors import safe_open

from judge.votes import fitting, prompts
from lab.curriculum import examination
from lab.curriculum.lessons import FAMILY

ADAPTER = fitting.FOLDER


def test_it_is_a_few_megabytes_and_names_its_base_without_a_path():
    config = json.loads((ADAPTER / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert sum(file.stat().st_size for file in ADAPTER.iterdir()) < 8 * 2**20


def test_it_was_trained_on_the_prompts_that_are_served():
    told = json.loads((ADAPTER / "training.json").read_text())
    assert told["prompts"] == prompts.version(FAMILY)


def test_every_weight_of_it_is_a_number():
    with safe_open(ADAPTER / "adapter_model.safetensors", "pt") as weights:
        assert all(weights.get_tensor(name).isfinite().all() for name in weights.keys())  # noqa: SIM118


@pytest.mark.real_model
@pytest.mark.processes
@pytest.mark.timeout(900)
def test_it_scores_and_words_hints_on_wordings_it_never_saw(smol_model):
    """Ten replies with all that may come back after them: about eighty cases with two dozen hints. The bounds lie two
    standard errors and more below what hundreds of cases show (docs/explanation/judge-model.md)."""
    cases = examination.examine(smol_model, ADAPTER, groups=10, swayed=0)
    known = [case for case in cases if not case.lesson.label.is_unseen]
    scored = [case for case in known if "score" in case.said]
    hinted = [case for case in known if case.lesson.label.hint]
    assert sum(case.is_scored_right for case in scored) / len(scored) > 0.7
    assert sum(case.is_decided_right for case in known) / len(known) > 0.8
    assert sum(case.is_named for case in hinted) / len(hinted) > 0.35
