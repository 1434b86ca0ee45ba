"""The page of the recipe: what is used, where it comes from, and what a pasted one would do."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.webapp.training.pages import text
from training import config, line_recipes
from training.models import Run
from webapp.console.training import recipe_pages


def test_the_recipe_page_says_what_is_used_where_it_comes_from_and_what_each_knob_is_for(console, settings, tmp_path):
    settings.RECIPE = ""
    page = text(console.get(reverse("console:recipe")))
    assert "Learning uses the preset embedded." in page
    assert "RECIPE is not set" in page
    assert "The adapter&#x27;s rank; its alpha is twice that." in page

    file = tmp_path / "ours.json"
    file.write_text('{"preset": "topk", "lr": 0.5}')
    settings.RECIPE = str(file)
    page = text(console.get(reverse("console:recipe")))
    assert "Learning uses a recipe of its own, nearest to topk." in page
    assert "ours.json" in page
    assert str(tmp_path) not in page

    file.write_text('{"lr": -1}')
    page = text(console.get(reverse("console:recipe")))
    assert "It cannot be used." in page
    assert "No training starts until that is fixed." in page


def test_every_knob_and_every_preset_stands_on_the_recipe_page(console, settings):
    settings.RECIPE = ""
    page = text(console.get(reverse("console:recipe")))
    for name in (*config.Recipe.model_fields, *config.PRESETS):
        assert name in page


def test_presets_stand_side_by_side_with_what_differs_from_here_marked():
    rows = {
        name: values
        for name, _, values in recipe_pages.side_by_side(recipe_pages.read(config.PRESETS["binary"].model_dump()))
    }
    at = list(config.PRESETS).index
    assert rows["w_opd"][at("binary")] == (0.0, False)
    assert rows["w_opd"][at("combined")] == (1.0, True)
    assert "max_age" not in rows  # alike in all


@pytest.mark.parametrize("preset", list(config.PRESETS))
def test_a_preset_is_known_by_its_name(preset):
    reading = recipe_pages.read(config.PRESETS[preset].model_dump())
    assert config.PRESETS[reading.preset] == config.PRESETS[preset]  # two presets may say the same
    assert reading.is_preset


def test_a_pasted_recipe_is_told_all_its_faults(console):
    pasted = {"recipe": '{"lr": 0, "learning_rate": 1, "batch_size": 0}'}
    said = text(console.post(reverse("console:recipe"), pasted, headers={"HX-Request": "true"}))
    assert "<html" not in said
    assert "lr: should be greater than 0." in said
    assert "There is no knob learning_rate." in said
    assert "batch_size: should be greater than or equal to 1." in said


@pytest.mark.parametrize(
    ("pasted", "fault"),
    [
        ("{", "not a JSON object"),
        ('{"preset": "best"}', "There is no preset"),
        ('{"weights": "full"}', "Set weights to lora"),
        ("x" * 30_000, "longer than 20000 characters"),
        ('{"w_rl": 0, "w_opd": 0, "w_sft": 0}', "nothing would be learned"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(pasted, fault):
    [said] = recipe_pages.tried(pasted).errors
    assert fault in said


def test_a_pasted_recipe_says_what_a_run_of_it_would_take_and_changes_nothing(console, make_lesson, settings):
    settings.RECIPE = ""
    make_lesson()
    page = text(console.post(reverse("console:recipe"), {"recipe": '{"preset": "topk", "updates": 3}'}))
    assert "It can be used. 1 lesson, 3 updates" in page
    assert "<html" in page  # without scripts the whole page comes, with what was pasted still in its place
    assert "&quot;updates&quot;: 3" in page
    assert not Run.objects.exists()
    assert line_recipes.current() == config.PRESETS["embedded"]
