"""What an older version wrote can be read by this one."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps

from checkpoints.models import Line
from training.config import Recipe
from training.models import Run


def test_a_recipe_that_said_how_long_moments_live_can_be_read(db):
    recipe = Recipe(lr=1e-3)
    run = Run.objects.create(recipe=recipe.model_dump() | {"moments": "line"})
    line = Line.objects.get(name="shared")
    Line.objects.update(recipe={"moments": "run", "lr": 1e-3})

    import_module("training.migrations.0009_no_moments").drop(apps, None)

    run.refresh_from_db(), line.refresh_from_db()
    assert Recipe.model_validate(run.recipe) == recipe
    assert line.recipe == {"lr": 1e-3}
