"""Find and set the recipe that a line of checkpoints learns by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from django.conf import settings
from django.utils.translation import gettext as _

from checkpoints.models import SHARED, Line
from core.textfiles import read_text
from training import config, outside
from training.config import Recipe, RecipeInvalid
from training.models import Sample


def recipe_of(line: str) -> Recipe:
    """What this line learns by: its own recipe, else the installation's. Raises RecipeInvalid."""
    own = Line.objects.filter(name=line).values_list("recipe", flat=True).first()
    return usable(own) if own else current()


def recipe_of_row(line: Line) -> Recipe:
    """The same of a line that was read already. Raises RecipeInvalid."""
    return usable(line.recipe) if line.recipe else current()


def set_recipe(line: Line, fields: Mapping[str, object]) -> Recipe:
    """Have this line learn by a recipe of its own from its next run on; without fields, by the installation's again.
    Raises RecipeInvalid, with nothing changed."""
    recipe = usable(fields) if fields else current()
    line.recipe = dict(fields)
    line.save(update_fields=["recipe"])
    return recipe


def usable(fields: str | Mapping[str, object]) -> Recipe:
    """The recipe that these words make, where a line can learn by it here: weights of several lines answer beside one
    another, which only adapters can, and a learner elsewhere has bounds of its own. Raises RecipeInvalid."""
    recipe = config.read(fields)
    if recipe.weights == "full":
        raise RecipeInvalid(_("A line's weights cannot be full: only adapters go live. Set weights to lora."))
    if outside.is_outside():
        outside.check(recipe)
    return recipe


def recipes_of(names: Iterable[str]) -> dict[str, Recipe]:
    """What each of these lines learns by, in at most one query; without those whose recipe cannot be used."""
    names = set(names)
    own = dict(Line.objects.filter(name__in=names).values_list("name", "recipe"))
    return recipes_from({name: own.get(name, {}) for name in names})


def recipes_from(own: Mapping[str, Mapping[str, object]]) -> dict[str, Recipe]:
    """The same where each line's own recipe, by its name, is known; an empty one is the installation's."""
    found = {}
    for name in own:
        with suppress(RecipeInvalid):
            found[name] = config.read(own[name]) if own.get(name) else current()
    return found


def waiting() -> list[str]:
    """The names of the lines of which samples wait, the shared one first."""
    ready = Sample.objects.filter(status=Sample.Status.READY, line__retired_at=None)
    return sorted(set(ready.order_by().values_list("line", flat=True)), key=lambda name: (name != SHARED, name))


def current() -> Recipe:
    """Return this installation's recipe: the file that RECIPE names, else the preset for where it learns."""
    if not settings.RECIPE:
        return config.PRESETS["combined" if outside.is_outside() else "embedded"]
    try:
        text = read_text(settings.RECIPE)
    except OSError as error:
        said = _("RECIPE names %(file)s, which cannot be read: %(why)s.")
        raise RecipeInvalid(said % {"file": settings.RECIPE, "why": error.strerror}) from error
    recipe = config.read(text)
    if recipe.weights == "full" and not settings.SPARE_ENGINE_URL:
        raise RecipeInvalid(
            _(
                "The recipe's weights can be full only with a second engine, which answers for the base and for "
                "candidates while full weights are live: set SPARE_ENGINE_URL, or set weights to lora."
            )
        )
    if outside.is_outside():
        outside.check(recipe)
    return recipe
