"""Show and change recipes: where a recipe comes from, what each knob is for, what a pasted one comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_http_methods, require_POST
from pydantic import ValidationError

from checkpoints.models import SHARED, Line
from core.errors import TalkbackError
from judge import recipe_changes
from judge.models import Ruling
from training import batches, config, forecast, line_recipes
from training.config import PRESETS, REMOVED, Recipe, RecipeInvalid
from webapp.console.doors import needs, person, said_aloud
from webapp.console.review.desk import is_fragment

LONGEST = 20_000
"""Characters of a pasted recipe that are read."""

WHOSE = {
    "combined": "reward and hints, by the served token",
    "binary": "rewards alone: no judge writes a hint",
    "opd": "hints alone, by the served token",
    "topk": "hints alone, by the likeliest tokens",
    "agents": "attempts at tasks, compared step by step: no hints, no rewrites",
    "24gb": "as combined, on a base in 4 bits: for one card of 24 GB",
    "embedded": "reward and hints by the whole vocabulary: the small model’s",
}
"""What a preset is for, in a few words; one that is not here goes by its name."""


@dataclass(frozen=True)
class Knob:
    """One setting of a recipe beside the preset it is nearest to."""

    name: str
    value: Any
    usual: Any
    """The preset's."""
    doc: str = ""

    @property
    def differs(self) -> bool:
        return bool(self.value != self.usual)


@dataclass(frozen=True)
class Reading:
    """A recipe as a preset and what differs from it."""

    preset: str
    knobs: tuple[Knob, ...]
    unknown: tuple[tuple[str, Any], ...] = ()
    """What a recipe of another version says that this one does not know."""
    gone: tuple[tuple[str, Any], ...] = ()
    """What a recipe of an earlier version says of knobs that are constants now."""

    @property
    def differences(self) -> list[Knob]:
        return [knob for knob in self.knobs if knob.differs]

    @property
    def is_preset(self) -> bool:
        return not self.differences and not self.unknown

    @property
    def name(self) -> str:
        """As a list says it.

        >>> read({"w_opd": 0}).name, read({"w_opd": 0, "lr": 1e-3, "updates": 8}).name
        ('binary', 'binary, 2 knobs changed')
        """
        number = len(self.differences) + len(self.unknown)
        if not self.knobs:
            return "not kept"
        return self.preset + (f", {number} knob{'s' if number > 1 else ''} changed" if number else "")


def read(recipe: Mapping[str, Any]) -> Reading:
    """A recipe as a row keeps it, beside the preset that differs from it in the fewest knobs.

    A knob that came after the row was written stands at its default: that is how the run was.
    """
    if not recipe:
        return Reading("", ())
    docs, kept = config.reasons(), config.knobs(recipe)
    values = config.knobs(Recipe().model_dump()) | {name: value for name, value in kept.items() if name in docs}
    presets = {name: config.knobs(preset.model_dump()) for name, preset in PRESETS.items()}

    def apart(name: str) -> int:
        return sum(values[knob] != presets[name][knob] for knob in values)

    nearest = min(presets, key=apart)
    knobs = (Knob(name, value, presets[nearest][name], words(docs[name])) for name, value in values.items())
    unknown = tuple((name, kept[name]) for name in kept if name not in docs and name not in REMOVED)
    gone = tuple((name, kept[name]) for name in kept if name in REMOVED)
    return Reading(nearest, tuple(knobs), unknown, gone)


def words(description: str | None) -> str:
    """A knob's docstring on one line, without the marks of code."""
    return " ".join((description or "").replace("`", "").split())


@dataclass(frozen=True)
class Origin:
    """Where this installation's recipe comes from."""

    sentence: str
    error: str = ""


def origin() -> Origin:
    """Of what the shared line learns by: what was chosen here holds, else RECIPE's file, else a preset."""
    file = Path(settings.RECIPE).name if settings.RECIPE else ""
    shared = Line.objects.get(pk=SHARED)
    if shared.recipe:
        said = f"It was chosen here, as {in_words(shared.recipe)}."
        rest = f"The file {file}, which RECIPE names," if file else "The preset for an installation like this one"
        said += f" {rest} holds for lines without a recipe of their own, and here again once that is chosen below."
    elif file:
        said = f"It is what the file {file} says, which RECIPE names. It is read anew for every batch."
    else:
        said = "RECIPE is not set, so it is the preset for an installation like this one."
    try:
        line_recipes.recipe_of(SHARED)
    except TalkbackError as failure:
        return Origin(said if shared.recipe else f"RECIPE names the file {file}.", str(failure))
    return Origin(said)


def side_by_side(here: Reading | None) -> list[tuple[str, str, list[tuple[Any, bool]]]]:
    """(knob, what it is for, [(value, whether it differs from the one here)] by preset), where they are not alike."""
    used = {knob.name: knob.value for knob in here.knobs} if here else config.knobs(Recipe().model_dump())
    presets = [config.knobs(preset.model_dump()) for preset in PRESETS.values()]
    rows = []
    for name, doc in config.reasons().items():
        values = [preset[name] for preset in presets]
        if any(value != used[name] for value in values):
            rows.append((name, words(doc), [(value, value != used[name]) for value in values]))
    return rows


@dataclass(frozen=True)
class Trial:
    """What a pasted recipe comes to."""

    text: str
    errors: tuple[str, ...] = ()
    reading: Reading | None = None
    takes: str = ""
    """What a run of it on the samples that wait would take."""
    kept: str = ""
    """As JSON, to keep in a file."""


def tried(text: str) -> Trial:
    """Read a pasted recipe as RECIPE's file would be read. Nothing is kept or started."""
    if len(text) > LONGEST:
        return Trial(text[:LONGEST], (f"That is longer than {LONGEST} characters: a recipe is a few lines of JSON.",))
    try:
        recipe = line_recipes.usable(text or "{}")
    except RecipeInvalid as failure:
        return Trial(text, faults(failure))
    try:
        takes = forecast.of_ready(recipe).sentence
    except TalkbackError as nothing:
        takes = str(nothing)
    reading = read(recipe.model_dump())
    kept = {"preset": reading.preset} | {knob.name: knob.value for knob in reading.differences}
    return Trial(text, (), reading, takes, json.dumps(kept, indent=2))


def faults(failure: RecipeInvalid) -> tuple[str, ...]:
    """Everything that is wrong with a recipe, a sentence each."""
    cause = failure.__cause__
    if not isinstance(cause, ValidationError):
        return (str(failure),)
    return tuple(fault(error["type"], ".".join(map(str, error["loc"])), error["msg"]) for error in cause.errors())


def fault(kind: str, knob: str, said: str) -> str:
    """
    >>> fault("extra_forbidden", "learning_rate", "Extra inputs are not permitted")
    'There is no knob learning_rate.'
    >>> fault("greater_than", "lr", "Input should be greater than 0")
    'lr: should be greater than 0.'
    >>> fault("value_error", "", "Value error, rehearsal needs a distribution")
    'Rehearsal needs a distribution.'
    """
    if kind == "extra_forbidden":
        return f"There is no knob {knob}."
    said = said.removeprefix("Value error, ").removeprefix("Input ")
    return f"{knob}: {said}." if knob else f"{said[:1].upper()}{said[1:]}."


@dataclass(frozen=True)
class OwnRecipe:
    """What a line learns by, as its form shows it and as it came to be."""

    line: Line
    says: str
    """What it learns by, in words."""
    preset: str
    """Which the form has chosen; empty: the installation's recipe."""
    changes: str
    """What differs from it, as JSON."""
    mark: str
    fault: str = ""
    history: tuple[tuple[Ruling, str, str, bool], ...] = ()
    """(decision, before, after, whether it can be undone), newest first."""


CHANGES = 6
"""How many decisions about a line's recipe are shown."""


def own(line: Line) -> OwnRecipe:
    rest = {name: value for name, value in line.recipe.items() if name != "preset"}
    try:
        config.read(line.recipe)
        fault = ""
    except RecipeInvalid as failure:
        fault = str(failure)
    decided = tuple(
        (
            ruling,
            in_words(ruling.before["recipe"]),
            in_words(ruling.after["recipe"]),
            place == 0 and ruling.after["recipe"] == line.recipe,
        )
        for place, ruling in enumerate(recipe_changes.history(line)[:CHANGES])
    )
    return OwnRecipe(
        line,
        in_words(line.recipe),
        str(line.recipe.get("preset", "embedded")) if line.recipe else "",
        json.dumps(rest, indent=2) if rest else "",
        recipe_changes.mark(line),
        fault,
        decided,
    )


def in_words(fields: Mapping[str, Any]) -> str:
    """
    >>> in_words({}), in_words({"preset": "binary", "updates": 3})
    ('the installation’s recipe', 'binary with updates 3')
    """
    if not fields:
        return "the installation’s recipe"
    rest = ", ".join(f"{name} {json.dumps(value)}" for name, value in fields.items() if name != "preset")
    return str(fields.get("preset", "embedded")) + (f" with {rest}" if rest else "")


def chosen(preset: str, changes: str) -> dict[str, Any]:
    """What a line's form says. Raises RecipeInvalid for what is no JSON object, or changes without a preset."""
    try:
        said = json.loads(changes[:LONGEST].replace("\x00", "").strip() or "{}")
    except json.JSONDecodeError as error:
        raise RecipeInvalid(f"What differs is not a JSON object: {error}.") from error
    if not isinstance(said, dict):
        raise RecipeInvalid("What differs is not a JSON object.")
    if not preset:
        if said:
            raise RecipeInvalid("Choose the preset from which that differs; the installation's recipe has no changes.")
        return {}
    return {"preset": preset, **{name: value for name, value in said.items() if name != "preset"}}


@needs("training")
@require_http_methods(["GET", "HEAD", "POST"])
def recipe(request: HttpRequest) -> HttpResponse:
    """The recipe page; a POST tries a pasted recipe and shows what it comes to."""
    text = request.POST.get("recipe", "").replace("\x00", "").strip()
    trial = tried(text) if request.method == "POST" else None
    if trial is not None and is_fragment(request):
        return render(request, "training/_recipe_tried.html", {"trial": trial})
    return render(request, "training/recipe.html", shown() | {"trial": trial})


def shown() -> dict[str, Any]:
    """What the recipe page shows before a person has typed."""
    try:
        recipe = line_recipes.recipe_of(SHARED)
        reading = read(recipe.model_dump())
    except TalkbackError:
        recipe, reading = None, None
    active = sorted(Line.objects.filter(retired_at=None), key=lambda line: not line.is_shared)
    return {
        "reading": reading,
        "origin": origin(),
        "batch": batches.filling(recipe) if recipe is not None else None,
        "presets": list(PRESETS),
        "about": [(name, WHOSE.get(name, "")) for name in PRESETS],
        "rows": side_by_side(reading),
        "own": [own(line) for line in active],
        "example": '{\n  "preset": "embedded",\n  "updates": 4\n}',
    }


@needs("training")
@require_POST
def give(request: HttpRequest, name: str) -> HttpResponse:
    """Have a line learn by a preset, and what differs from it, from its next run on."""
    line = get_object_or_404(Line, name=name)
    preset, changes = request.POST.get("preset", ""), request.POST.get("changes", "")
    by, reason, seen = person(request), request.POST.get("reason", "")[:500], request.POST.get("seen")
    try:
        recipe_changes.give(line, chosen(preset, changes), by=by, reason=reason, seen=seen)
    except RecipeInvalid as failure:
        typed = replace(own(line), preset=preset, changes=changes[:LONGEST], fault=" ".join(faults(failure)))
        context = shown()
        context["own"] = [typed if one.line == line else one for one in context["own"]]
        return render(request, "training/recipe.html", context, status=422)
    except TalkbackError as failure:
        messages.error(request, str(failure), extra_tags="bad")
    else:
        messages.success(request, f"“{line}” learns by {in_words(line.recipe)} from its next run on.", "good")
    return redirect(f"{reverse('console:recipe')}#line-{name}")


@needs("training")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    ruling = get_object_or_404(Ruling, pk=pk)
    by = person(request)
    if done := said_aloud(request, lambda: recipe_changes.undo(ruling, by=by)):
        messages.success(request, f"It learns by {in_words(done.after['recipe'])} again.", "good")
    return redirect(f"{reverse('console:recipe')}#line-{ruling.after.get('line', '')}")


urls = [
    path("recipe/", recipe, name="recipe"),
    path("recipe/<slug:name>/", give, name="recipe_give"),
    path("recipe/undo/<row:pk>/", undo, name="recipe_undo"),
]
