"""A model that the learner cannot load is refused before a run starts, in words that say what to do."""

from __future__ import annotations

import json

import pytest
from django.core import checks
from django.core.management import CommandError, call_command
from transformers import AutoModelForCausalLM, Qwen3VLConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from training import batches, runs, tasks
from training.config import Recipe
from training.learnable import NotLearnable, causal_types, why_not
from training.models import Run, Sample
from webapp.console import board

RECIPE = Recipe(batch_size=1)
SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}


@pytest.fixture
def sees(tmp_path):
    """The folder of a tiny model that sees: its config is all that is read of it."""
    folder = tmp_path / "sees"
    config = Qwen3VLConfig(
        text_config=SMALL | {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 16},
        vision_config={"depth": 1, "hidden_size": 8, "num_heads": 1, "out_hidden_size": 8},
    )
    config.save_pretrained(folder)
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        AutoModelForCausalLM.from_config(config)  # as the learner would, in the middle of a run
    return folder


def test_no_run_starts_with_a_model_that_the_learner_cannot_load(ready, settings, sees):
    sample = ready()
    settings.MODEL = str(sees)
    with pytest.raises(NotLearnable, match=r"sees is of the type qwen3_vl.*have MODEL name a text model"):
        batches.learn_now(RECIPE)
    for dry in (False, True):
        with pytest.raises(CommandError, match="have MODEL name a text model"):
            call_command("learn_now", dry_run=dry)
    tasks.fill_batch(str(sample.pk))
    assert not Run.objects.exists()
    assert Sample.objects.get().status == Sample.Status.READY


def test_a_run_that_waited_while_the_model_was_changed_ends_before_it_learns(ready, settings, sees):
    ready()
    run = batches.learn_now(RECIPE)
    settings.MODEL = str(sees)
    assert runs.train(run) is None
    run.refresh_from_db()
    assert (run.status, "have MODEL name a text model" in run.error) == ("failed", True)
    assert Sample.objects.get().status == Sample.Status.READY


def test_each_start_warns_of_such_a_model_and_is_not_held_up_by_it(settings, sees):
    settings.MODEL = str(sees)
    (warning,) = [one for one in checks.run_checks() if one.id == "training.W001"]
    assert "the learner cannot load" in warning.msg
    assert not warning.is_serious()


def test_the_types_that_are_read_without_torch_are_those_that_transformers_loads():
    assert causal_types() == set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def test_the_overview_says_why_nothing_is_learned(settings, sees):
    settings.MODEL = str(sees)
    assert "have MODEL name a text model" in board.waiting(None).sentence(16)


@pytest.mark.parametrize(
    "config", [[], {"model_type": "llama"}, {"model_type": "gemma3", "vision_config": {"depth": 1}}]
)
def test_what_loads_as_a_language_model_is_learned_whether_it_sees_or_not(settings, tmp_path, config):
    (tmp_path / "config.json").write_text(json.dumps(config))
    settings.MODEL = str(tmp_path)
    assert why_not() == ""


def test_a_model_that_is_trained_elsewhere_is_not_asked_about(settings, sees):
    settings.MODEL, settings.LEARNER = str(sees), "tinker"
    assert why_not() == ""
