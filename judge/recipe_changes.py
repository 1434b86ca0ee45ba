"""A line's recipe, changed on record: who, when, from what to what and why; and back again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from checkpoints.models import Line
from judge.hints.decisions import NotPossible, Overtaken
from judge.models import Ruling
from training import line_recipes


def give(line: Line, fields: Mapping[str, object], *, by: User, reason: str = "", seen: str | None = None) -> Ruling:
    """Have this line learn by `fields` from its next run on; by the installation's recipe, when there are none.

    `seen` is the `mark` of the recipe that the person decided on. Raises Overtaken when another one stands by now,
    NotPossible for a change that is none, RecipeInvalid for a recipe that cannot be used: nothing is changed then.
    """
    with transaction.atomic():
        locked = Line.objects.select_for_update().get(pk=line.pk)
        if locked.retired_at is not None:
            raise NotPossible(_("“%(line)s” is retired: it learns no more.") % {"line": locked})
        if seen is not None and seen != mark(locked):
            raise Overtaken(
                _("The recipe of “%(line)s” was changed meanwhile: look at it before you change it.") % {"line": locked}
            )
        if dict(fields) == locked.recipe:
            raise NotPossible(_("“%(line)s” learns by that already.") % {"line": locked})
        ruling = _changed(locked, fields, Ruling.Verb.POLICY, by=by, reason=reason.strip())
    line.recipe = locked.recipe
    return ruling


def undo(ruling: Ruling, *, by: User) -> Ruling:
    """Give the line back the recipe that this decision took from it. Raises Overtaken when it has another by now."""
    with transaction.atomic():
        locked = Line.objects.select_for_update().filter(pk=ruling.after.get("line")).first()
        if locked is None or "recipe" not in ruling.before:
            raise NotPossible(_("This decision changed no line's recipe."))
        if locked.recipe != ruling.after["recipe"] or Ruling.objects.filter(undoes=ruling).exists():
            raise Overtaken(
                _("The recipe of “%(line)s” was changed again since: look at it before you change it back.")
                % {"line": locked}
            )
        return _changed(locked, ruling.before["recipe"], Ruling.Verb.UNDO, by=by, undoes=ruling)


def _changed(line: Line, fields: Mapping[str, object], verb: Ruling.Verb, **about: Any) -> Ruling:
    before = line.recipe
    line_recipes.set_recipe(line, fields)
    return Ruling.objects.create(
        verb=verb,
        before={"line": line.name, "recipe": before},
        after={"line": line.name, "recipe": line.recipe},
        **about,
    )


def history(line: Line) -> QuerySet[Ruling]:
    """What was decided about this line's recipe, newest first."""
    rows = Ruling.objects.filter(after__line=line.name, after__has_key="recipe")
    return rows.select_related("by", "undone_by").order_by("-pk")


def mark(line: Line) -> str:
    """What stands, for a form that wants to know whether it still does."""
    return json.dumps(line.recipe, sort_keys=True)
