"""Show and change recipes: where a recipe comes from, what each knob is for, what a pasted one comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from checkpoints.models import SHARED, Line
from core.errors import TalkbackError
from judge import recipe_changes
from judge.models import Ruling
from training import batches, config, line_recipes
from training.config import PRESETS, REMOVED, Recipe, RecipeInvalid
from training.next_run import forecast
from training.recipes import published
from webapp.console.doors import needs, person, said_aloud
from webapp.console.review.desk import is_fragment
from webapp.console.training import recipe_form, recipe_preview
from webapp.console.training.knob_words import words
from webapp.console.training.recipe_faults import why
from webapp.console.training.recipe_form import Draft
from webapp.console.training.recipe_preview import what_for

LONGEST = 20_000
"""Characters of a pasted recipe that are read."""


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
            return _("not kept")
        if not number:
            return self.preset
        said = ngettext("%(preset)s, %(n)s knob changed", "%(preset)s, %(n)s knobs changed", number)
        return said % {"preset": self.preset, "n": number}


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


@dataclass(frozen=True)
class Origin:
    """Where this installation's recipe comes from."""

    sentence: str
    error: str = ""


def origin(shared: Line) -> Origin:
    """Of what the shared line learns by: what was chosen here holds, else RECIPE's file, else a preset."""
    file = Path(settings.RECIPE).name if settings.RECIPE else ""
    if shared.recipe:
        said = _(
            "It was chosen here, as %(recipe)s. The preset for an installation like this one holds for lines without a "
            "recipe of their own, and here again once that is chosen below."
        )
        if file:
            said = _(
                "It was chosen here, as %(recipe)s. The file %(file)s, which RECIPE names, holds for lines without a "
                "recipe of their own, and here again once that is chosen below."
            )
        said %= {"recipe": in_words(shared.recipe), "file": file}
    elif file:
        said = _("It is what the file %(file)s says, which RECIPE names. It is read anew for every batch.")
        said %= {"file": file}
    else:
        said = _("RECIPE is not set, so it is the preset for an installation like this one.")
    try:
        line_recipes.recipe_of_row(shared)
    except TalkbackError as failure:
        return Origin(said if shared.recipe else _("RECIPE names the file %(file)s.") % {"file": file}, str(failure))
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
        said = _("That is longer than %(longest)s characters: a recipe is a few lines of JSON.")
        return Trial(text[:LONGEST], (said % {"longest": LONGEST},))
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
    return tuple(map(fault, cause.errors()))


def fault(error: ErrorDetails) -> str:
    """
    >>> said = {"type": "extra_forbidden", "loc": ("learning_rate",), "msg": "", "input": 1}
    >>> fault(said), fault(said | {"type": "greater_than", "loc": ("lr",), "ctx": {"gt": 0.0}})
    ('There is no knob learning_rate.', 'lr: should be greater than 0.')
    >>> fault({"type": "value_error", "loc": (), "msg": "Value error, rehearsal needs a distribution", "input": 1})
    'Rehearsal needs a distribution.'
    """
    knob = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return _("There is no knob %(knob)s.") % {"knob": knob}
    said = why(error)
    return f"{knob}: {said}." if knob else f"{said[:1].upper()}{said[1:]}."


CHANGES = 6
"""How many decisions about a line's recipe are shown."""


@dataclass(frozen=True)
class Decided:
    """A decision about a line's recipe."""

    ruling: Ruling
    before: str
    after: str
    is_undoable: bool


def history(line: Line) -> list[Decided]:
    """What was decided about a line's recipe, newest first; the newest can be undone while it stands."""
    return [
        Decided(
            ruling,
            in_words(ruling.before["recipe"]),
            in_words(ruling.after["recipe"]),
            place == 0 and ruling.after["recipe"] == line.recipe,
        )
        for place, ruling in enumerate(recipe_changes.history(line)[:CHANGES])
    ]


def in_words(fields: Mapping[str, Any]) -> str:
    """
    >>> in_words({}), in_words({"preset": "binary", "updates": 3})
    ('the installation’s recipe', 'binary with updates 3')
    """
    if not fields:
        return _("the installation’s recipe")
    rest = ", ".join(f"{name} {json.dumps(value)}" for name, value in fields.items() if name != "preset")
    preset = str(fields.get("preset", "embedded"))
    return _("%(preset)s with %(knobs)s") % {"preset": preset, "knobs": rest} if rest else preset


@needs("training")
@require_http_methods(["GET", "HEAD", "POST"])
def recipe(request: HttpRequest) -> HttpResponse:
    """The recipe page of a `line`, its form filled with a `preset` where the address names one; a POST tries a pasted
    recipe and shows what it comes to."""
    text = request.POST.get("recipe", "").replace("\x00", "").strip()
    trial = tried(text) if request.method == "POST" else None
    if trial is not None and is_fragment(request):
        return render(request, "training/recipe/_recipe_tried.html", {"trial": trial})
    lines = active_lines()
    line = next((one for one in lines if one.name == request.GET.get("line", SHARED)), None)
    if line is None:
        raise Http404(_("There is no such line."))
    draft = recipe_form.of_line(line.recipe)
    if "preset" in request.GET:
        with suppress(RecipeInvalid):
            draft = recipe_form.of_preset(request.GET["preset"])
    if is_fragment(request):
        return render(request, "training/recipe/_recipe_form.html", form(line, draft))
    return render(request, "training/recipe/recipe.html", shown(line, draft, lines) | {"trial": trial})


def active_lines() -> list[Line]:
    """Every line that learns, the shared one first."""
    return sorted(Line.objects.filter(retired_at=None), key=lambda one: not one.is_shared)


def shown(line: Line, draft: Draft, lines: list[Line]) -> dict[str, Any]:
    """The recipe page around a form."""
    shared = lines[0]
    try:
        recipe = line_recipes.recipe_of_row(shared)
        reading = read(recipe.model_dump())
    except TalkbackError:
        recipe, reading = None, None
    return form(line, draft) | {
        "reading": reading,
        "origin": origin(shared),
        "batch": batches.filling(recipe) if recipe is not None else None,
        "about": [(name, what_for(name)) for name in PRESETS],
        "rows": side_by_side(reading),
        "lines": lines,
        "history": history(line),
        "example": '{\n  "preset": "embedded",\n  "updates": 4\n}',
    }


def form(line: Line, draft: Draft, **more: Any) -> dict[str, Any]:
    """What the form alone shows. `change`: what saving it would change."""
    return {
        "line": line,
        "draft": draft,
        "says": in_words(line.recipe),
        "mark": recipe_changes.mark(line),
        "cards": recipe_preview.cards(),
        "published": list(published().values()),
        **more,
    }


@needs("training")
@require_POST
def give(request: HttpRequest, name: str) -> HttpResponse:
    """Show what a line's form would change, and once that was seen, keep it: from the line's next run on."""
    line = get_object_or_404(Line, name=name)
    draft = recipe_form.composed(request.POST, line.recipe)
    reason = request.POST.get("reason", "")[:500]
    if not draft.is_usable:
        return _answered(request, line, draft, reason=reason, status=422)
    assert draft.fields is not None
    agreed = json.dumps(draft.fields, sort_keys=True)
    if request.POST.get("act") != "save" or request.POST.get("agreed") != agreed:
        return _answered(request, line, draft, reason=reason, change=recipe_preview.change(line, draft), agreed=agreed)
    try:
        recipe_changes.give(line, draft.fields, by=person(request), reason=reason, seen=request.POST.get("seen"))
    except TalkbackError as failure:
        faulty = replace(draft, errors={"": str(failure)})
        return _answered(request, line, faulty, reason=reason, status=failure.status)
    said = _("“%(line)s” learns by %(recipe)s from its next run on.")
    messages.success(request, said % {"line": line, "recipe": in_words(line.recipe)}, "good")
    there = f"{reverse('console:recipe')}?{urlencode({'line': name})}"
    return HttpResponse(headers={"HX-Redirect": there}) if is_fragment(request) else redirect(there)


def _answered(request: HttpRequest, line: Line, draft: Draft, *, status: int = 200, **more: Any) -> HttpResponse:
    """The form with what was typed; without scripts on its whole page."""
    if is_fragment(request):
        return render(request, "training/recipe/_recipe_form.html", form(line, draft, **more), status=status)
    return render(request, "training/recipe/recipe.html", shown(line, draft, active_lines()) | more, status=status)


@needs("training")
@require_POST
def undo(request: HttpRequest, pk: int) -> HttpResponse:
    ruling = get_object_or_404(Ruling, pk=pk)
    by = person(request)
    if done := said_aloud(request, lambda: recipe_changes.undo(ruling, by=by)):
        said = _("It learns by %(recipe)s again.") % {"recipe": in_words(done.after["recipe"])}
        messages.success(request, said, "good")
    return redirect(f"{reverse('console:recipe')}?{urlencode({'line': ruling.after.get('line', SHARED)})}")


urls = [
    path("recipe/", recipe, name="recipe"),
    path("recipe/<slug:name>/", give, name="recipe_give"),
    path("recipe/undo/<row:pk>/", undo, name="recipe_undo"),
]
