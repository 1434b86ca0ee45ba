"""The recipe refuses, where it is written, what would make no sense an hour into a run."""

from __future__ import annotations

import json

import pytest

from training import line_recipes
from training.config import PRESETS, REMOVED, Recipe, RecipeInvalid, read, reasons, stored


def test_every_knob_gives_its_reason():
    assert [name for name, field in Recipe.model_fields.items() if not field.description] == []


def test_a_recipe_survives_its_own_row():
    for recipe in PRESETS.values():
        assert Recipe.model_validate(json.loads(json.dumps(recipe.model_dump()))) == recipe


def test_the_anchor_is_never_off_by_accident():
    assert all(recipe.beta > 0 for recipe in PRESETS.values())


def test_a_recipe_may_start_from_a_preset_and_change_a_little():
    recipe = read({"preset": "binary", "batch_size": 3})

    assert (recipe.w_opd, recipe.batch_size) == (0, 3)


def test_a_rewrite_alone_may_be_what_is_learned():
    assert read({"w_rl": 0, "w_opd": 0, "w_sft": 1}).w_sft == 1


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_each_preset_is_for_an_adapter_and_for_every_weight_at_a_tenth_of_its_rate(name):
    adapter, full = read({"preset": name}), read({"preset": name, "weights": "full"})

    assert adapter == PRESETS[name]
    assert (full.weights, full.lr) == ("full", pytest.approx(adapter.lr / 10))
    # Every weight takes 16 bits, and a fifth of an ε that is more than next to nothing.
    assert full.epsilon == pytest.approx(adapter.epsilon / 5 if adapter.epsilon > 1e-8 else adapter.epsilon)
    as_adapter = {name: getattr(adapter, name) for name in ("weights", "lr", "epsilon", "base_bits")}
    assert full.model_copy(update=as_adapter) == adapter
    assert read({"preset": name, "weights": "full", "lr": 3e-6}).lr == 3e-6  # what is said outranks a preset


def test_a_recipe_of_another_version_reads_as_a_run_kept_it():
    kept = PRESETS["embedded"].model_dump() | {"w_dpo": 0.0, "clip_low": 0.2, "support": "student"}
    del kept["max_age"]  # a knob that came later

    assert stored(kept) == PRESETS["embedded"]


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_file_that_names_a_knob_that_is_gone_is_told_to_delete_it(name):
    outer, _, inner = name.partition(".")

    with pytest.raises(RecipeInvalid) as refused:
        read({outer: {inner: 1} if inner else 1, "updates": 2})

    assert str(refused.value) == (
        f"The recipe names knobs that are gone: {name}. Delete them: each is fixed, as in the presets."
    )


def test_no_knob_is_both_there_and_gone():
    assert not REMOVED & set(reasons())


def test_a_recipe_that_could_not_hold_to_the_base_rehearses_nothing_unless_it_says_so():
    assert read("{}").rehearsal > 0
    assert read('{"distillation": "token"}').rehearsal == 0


def test_without_a_name_the_embedded_preset_is_meant():
    assert read("{}") == PRESETS["embedded"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"learning_rate": 1}', "learning_rate"),
        ('{"preset": "best"}', "'best'"),
        ('{"w_rl": 0, "w_opd": 0, "w_sft": 0}', "nothing would be learned"),
        ('{"preset": "combined", "rehearsal": 0.25}', "needs distillation topk or vocabulary"),
        ('{"rehearsal": 1}', "rehearsal"),
        ('{"batch_size": 0}', "batch_size"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(text, said):
    with pytest.raises(RecipeInvalid, match=said):
        read(text)


def test_the_installations_recipe_is_the_file_it_names(settings, tmp_path):
    settings.RECIPE = ""
    assert line_recipes.current() == PRESETS["embedded"]

    settings.RECIPE = str(tmp_path / "recipe.json")
    with pytest.raises(RecipeInvalid, match="cannot be read"):
        line_recipes.current()

    (tmp_path / "recipe.json").write_text('{"batch_size": 5}')
    assert line_recipes.current().batch_size == 5


def test_full_weights_are_refused_where_they_could_not_go_live(settings, tmp_path):
    settings.RECIPE = str(tmp_path / "recipe.json")
    (tmp_path / "recipe.json").write_text('{"weights": "full"}')
    with pytest.raises(RecipeInvalid, match="only with a second engine"):
        line_recipes.current()
