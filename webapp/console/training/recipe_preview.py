"""Say what saving a recipe would change: knob by knob, and in minutes and memory; and what each preset is for."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from checkpoints.models import Line
from core.errors import TalkbackError
from training import line_recipes
from training.config import PRESETS, Recipe
from training.next_run import forecast
from training.next_run.forecast import Forecast
from webapp.console.training.recipe_form import FEW, Draft, FormField, texts

WHOSE = {
    "combined": gettext_noop(
        "Ratings and hints together, by the reply’s own tokens. For a model of some billions of weights."
    ),
    "binary": gettext_noop("Thumbs alone. No judge writes a hint, so a run is quick and needs much feedback."),
    "opd": gettext_noop("Hints alone, by the reply’s own tokens. For people who say what should be different."),
    "topk": gettext_noop("Hints alone, by the likeliest tokens. It keeps more of the content than one token does."),
    "agents": gettext_noop("Attempts at tasks, compared step by step. No hints and no rewrites."),
    "24gb": gettext_noop("As combined, with the base in 4 bits. For one card of 24 GB."),
    "embedded": gettext_noop(
        "Ratings, hints and rewrites, by the whole vocabulary. For the small model on a processor."
    ),
}
"""What a preset is for; one that is not here goes by its name."""


def what_for(preset: str) -> str:
    """Empty for one that goes by its name."""
    return _(WHOSE[preset]) if preset in WHOSE else ""


@dataclass(frozen=True)
class Card:
    """A preset as a person chooses one."""

    name: str
    what_for: str
    recipe: Recipe


def cards() -> list[Card]:
    return [Card(name, what_for(name), recipe) for name, recipe in PRESETS.items()]


@dataclass(frozen=True)
class Changed:
    """A knob that would change."""

    name: str
    label: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    """What saving would change."""

    knobs: tuple[Changed, ...]
    before: Forecast | None
    """A full batch by the recipe that stands; None where nothing can be told."""
    after: Forecast | None
    why_unknown: str = ""
    is_kept_apart: bool = True
    """Whether a choice is kept at all: a line may name a preset that says what the installation's recipe says."""


def change(line: Line, draft: Draft) -> Change:
    """From what the line learns by to what the form says."""
    assert draft.fields is not None
    new = line_recipes.usable(draft.fields) if draft.fields else line_recipes.current()
    try:
        old = line_recipes.recipe_of(line.name)
    except TalkbackError:  # a recipe that cannot be used any more: everything that the new one says is new
        old = None
    before = texts(old) if old is not None else {}
    after = texts(new)
    fields: dict[str, FormField] = {one.name: one for one in (*draft.few, *draft.more, *draft.exam)}
    knobs = tuple(
        Changed(name, fields[name].label, before.get(name, ""), value)
        for name, value in sorted(after.items(), key=lambda item: item[0] not in FEW)
        if before.get(name) != value
    )
    try:
        takes = forecast.of_full_batch(new, line.name)
        took = forecast.of_full_batch(old, line.name) if old is not None else None
    except TalkbackError as unknown:
        return Change(knobs, None, None, str(unknown), dict(draft.fields) != line.recipe)
    return Change(knobs, took, takes, "", dict(draft.fields) != line.recipe)
