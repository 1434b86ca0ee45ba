"""Lines of checkpoints on the one base: made, given a recipe, asked for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from django.db import IntegrityError, transaction
from django.utils.text import slugify

from core.errors import TalkbackError
from core.visible import name_fault
from training import config, outside
from training.config import Recipe, RecipeInvalid
from training.models import SHARED, Checkpoint, Line, Sample


class LineRefused(TalkbackError):
    """This line cannot be made, or changed so."""

    code, status = "line_refused", 409


def make(title: str, *, name: str = "", start: Checkpoint | None = None) -> Line:
    """A new private line, that begins with the base, or with the shared line's live checkpoint. Raises LineRefused."""
    title = title.strip()
    name = slugify(name or title)[:40].strip("-")
    start = start or Checkpoint.objects.get(number=0)
    if not name:
        raise LineRefused("A line needs a name with letters or digits in it.")
    if fault := name_fault(title):
        raise LineRefused(fault)
    if len(title) > 80:
        raise LineRefused("A line's name has at most 80 characters.")
    if Checkpoint.live().kind == Checkpoint.Kind.FULL:
        raise LineRefused(
            "Full weights answer everybody, and a line's adapter has no base beside them: roll the shared line back to "
            "an adapter, or to the base, first."
        )
    if start.number and start != Checkpoint.live():
        raise LineRefused(f"A line starts from the base, or from what is live in the shared one: {start} is neither.")
    try:
        with transaction.atomic():
            return Line.objects.create(name=name, title=title, start=start)
    except IntegrityError as error:
        raise LineRefused(f"There is, or was, a line called {name!r}: take another name.") from error


def recipe_of(line: str) -> Recipe:
    """What this line learns by: its own recipe, else the installation's. Raises RecipeInvalid."""
    own = Line.objects.filter(name=line).values_list("recipe", flat=True).first()
    return usable(own) if own else config.current()


def set_recipe(line: Line, fields: Mapping[str, object]) -> Recipe:
    """Have this line learn by a recipe of its own from its next run on; without fields, by the installation's again.
    Raises RecipeInvalid, with nothing changed."""
    recipe = usable(fields) if fields else config.current()
    line.recipe = dict(fields)
    line.save(update_fields=["recipe"])
    return recipe


def usable(fields: str | Mapping[str, object]) -> Recipe:
    """The recipe that these words make, where a line can learn by it here: weights of several lines answer beside one
    another, which only adapters can, and a learner elsewhere has bounds of its own. Raises RecipeInvalid."""
    recipe = config.read(fields)
    if recipe.weights == "full":
        raise RecipeInvalid("A line's weights cannot be full: only adapters go live. Set weights to lora.")
    if outside.is_outside():
        outside.check(recipe)
    return recipe


def recipes_of(names: Iterable[str]) -> dict[str, Recipe]:
    """What each of these lines learns by, in at most one query; without those whose recipe cannot be used."""
    names = set(names)
    own = dict(Line.objects.filter(name__in=names).values_list("name", "recipe"))
    found = {}
    for name in names:
        with suppress(RecipeInvalid):
            found[name] = config.read(own[name]) if own.get(name) else config.current()
    return found


def waiting() -> list[str]:
    """The names of the lines of which samples wait, the shared one first."""
    held = Sample.objects.filter(status=Sample.Status.READY, line__retired_at=None)
    return sorted(set(held.order_by().values_list("line", flat=True)), key=lambda name: (name != SHARED, name))
