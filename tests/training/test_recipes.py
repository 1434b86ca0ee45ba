"""Recipes as they were published: started by name, with what they need said before."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from environments.command import parser
from training.config import RecipeInvalid, preset, read
from training.recipes import published

# batch (tasks times attempts), updates a rollout, KL, what a step is compared with
PUBLISHED = {
    "terminal-qwen3-8b": (16 * 8, 2, 0.01, "index"),
    "gui-qwen3vl-8b": (8 * 8, 2, 0.01, "index"),
    "swe-qwen3-32b": (8 * 8, 1, 0.0, "outcome"),
    "tool-call-qwen3-4b": (32 * 8, 2, 0.01, "index"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_recipe_is_a_preset_by_its_name(name):
    recipe = read({"preset": name})
    assert (recipe.batch_size, recipe.updates, recipe.beta, recipe.baseline) == PUBLISHED[name]
    assert (recipe.weights, recipe.lr, recipe.w_opd, recipe.w_sft) == ("full", 1e-6, 0, 0)
    assert read({"preset": name, "batch_size": 8}).batch_size == 8
    # an adapter takes ten times the rate of full weights
    adapter = read({"preset": name, "weights": "lora"})
    assert (adapter.weights, adapter.lr) == ("lora", pytest.approx(1e-5))


@pytest.mark.parametrize("name", PUBLISHED)
def test_its_batch_can_be_played_as_it_says(name):
    found = published()[name]
    said = parser().parse_args(["worlds", "play", *found.play.split()])
    assert said.groups * said.attempts == preset(name).batch_size
    assert said.max_tokens < found.context


def test_the_dry_run_says_what_a_recipe_needs_and_what_was_not_run():
    out = io.StringIO()
    call_command("learn_now", dry_run=True, recipe="terminal-qwen3-8b", stdout=out)
    said = out.getvalue()
    # 8.19e9 weights of 16 bytes are 131 GB, of 2 bytes 16 GB
    assert "full: 131 GB in the learner and 16 GB for its frozen base, 16 GB in the engine and as much" in said
    assert "lora: 16 GB in the learner, 16 GB in the engine;" in said
    assert "Published on 8 GPUs, 4 to learn and 4 to serve (TP4)" in said
    assert "Run here: Nothing of it on this model" in said
    assert "cannot be learned here" not in said
    gui = io.StringIO()
    call_command("learn_now", dry_run=True, recipe="gui-qwen3vl-8b", stdout=gui)
    assert "Not here: This model cannot be learned here: the learner cannot load it" in gui.getvalue()
    with pytest.raises(CommandError, match="is one of gui-qwen3vl-8b"):
        call_command("learn_now", dry_run=True, recipe="other")
    with pytest.raises(RecipeInvalid, match="terminal-qwen3-8b"):
        preset("other")
