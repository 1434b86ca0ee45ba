"""A line's recipe as a form: what each field means and where it is sane, and what was typed made a recipe again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from pydantic import ValidationError

from training import config, line_recipes
from training.config import PRESETS, Gate, Recipe, RecipeInvalid
from training.recipes import published
from webapp.console.training.knob_words import words
from webapp.console.training.recipe_faults import NO_NUMBER, why

PREFIX = "knob-"
"""How the form's names of knobs begin."""


@dataclass(frozen=True)
class Range:
    """Between what a knob is sane, and what people call it. A logarithmic slider has equal steps a factor of ten."""

    label: str
    low: float
    high: float
    step: float
    is_log: bool = False


FEW = {
    "lr": Range(gettext_noop("Learning rate"), 1e-5, 1e-2, 0.05, is_log=True),
    "updates": Range(gettext_noop("Updates a run takes"), 1, 8, 1),
    "batch_size": Range(gettext_noop("Lessons a run learns from"), 4, 64, 1),
    "max_tokens": Range(gettext_noop("Tokens learned of each reply"), 32, 1024, 32),
    "beta": Range(gettext_noop("Pull back to the base (KL)"), 0, 0.3, 0.005),
    "w_rl": Range(gettext_noop("Weight of ratings"), 0, 2, 0.1),
    "w_opd": Range(gettext_noop("Weight of hints"), 0, 2, 0.1),
    "w_sft": Range(gettext_noop("Weight of rewrites"), 0, 4, 0.1),
}
"""The knobs that a person turns: those in which the presets differ most, and that change how a run goes. Beyond its
range a value is allowed, and said to be unusual. All others are under Advanced."""


@dataclass(frozen=True)
class FormField:
    """One knob in the form."""

    name: str
    label: str
    doc: str
    """What it is for: the knob's own docstring."""
    value: str
    """As it is typed; empty for null."""
    usual: str
    """The preset's."""
    kind: Literal["number", "choice", "switch"]
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    """Whether it may be left empty, for null."""
    range: Range | None = None
    error: str = ""

    @property
    def html_name(self) -> str:
        return PREFIX + self.name

    @property
    def differs(self) -> bool:
        return self.value != self.usual

    @property
    def is_unusual(self) -> bool:
        """Whether it lies beyond its sane range."""
        if self.range is None or self.error or not self.value:
            return False
        try:
            return not self.range.low <= float(self.value) <= self.range.high
        except ValueError:
            return False


def typed(value: object) -> str:
    """A knob's value as its field shows it.

    >>> typed(None), typed(True), typed(0.003), typed(16), typed("token"), typed(1e-08)
    ('', 'true', '0.003', '16', 'token', '1e-08')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def texts(recipe: Recipe) -> dict[str, str]:
    """Every knob as its field shows it."""
    return {name: typed(value) for name, value in config.knobs(recipe.model_dump()).items()}


def described(name: str) -> tuple[Literal["number", "choice", "switch"], tuple[Any, ...], bool]:
    """What kind of field a knob is, its choices, and whether it may be empty."""
    inner = name.partition(".")[2]
    annotation = (Gate if inner else Recipe).model_fields[inner or name].annotation
    if annotation is bool:
        return "switch", (), False
    if get_origin(annotation) is Literal:
        return "choice", get_args(annotation), False
    optional = isinstance(annotation, UnionType) and NoneType in get_args(annotation)
    return "number", (), optional


def read_text(name: str, text: str) -> object:
    """What a field's text stands for; what is no number is left for the recipe to refuse."""
    text = text.replace("\x00", "").strip()
    kind, choices, is_optional = described(name)
    if kind == "switch":
        return text == "true"
    if kind == "choice":
        return next((choice for choice in choices if str(choice) == text), text)
    if not text and is_optional:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Draft:
    """What a person made of a line's recipe. `fields` is the recipe as a line keeps it, where it can be used."""

    preset: str
    """Empty: the installation's recipe."""
    shown: Mapping[str, Any]
    """The recipe that the form showed before a person typed, as a line keeps one."""
    texts: Mapping[str, str]
    fields: Mapping[str, Any] | None = None
    errors: Mapping[str, str] | None = None
    """Sentences by knob; "" holds what is of no knob alone."""
    touched: tuple[str, ...] = ()
    """Knobs that the person typed since the form was opened: they stay where another preset is chosen."""

    @property
    def is_usable(self) -> bool:
        return self.fields is not None

    @property
    def few(self) -> list[FormField]:
        return [self.field(name) for name in FEW]

    @property
    def more(self) -> list[FormField]:
        return [self.field(name) for name in config.reasons() if name not in FEW and not name.startswith("gate.")]

    @property
    def exam(self) -> list[FormField]:
        """What the gate asks, and its limits."""
        return [self.field(name) for name in config.reasons() if name.startswith("gate.")]

    @property
    def fault(self) -> str:
        return (self.errors or {}).get("", "")

    @property
    def is_advanced(self) -> bool:
        """Whether something under Advanced is wrong."""
        return any(name and name not in FEW for name in self.errors or ())

    @property
    def shown_json(self) -> str:
        return json.dumps(self.shown, sort_keys=True)

    def field(self, name: str) -> FormField:
        kind, choices, is_optional = described(name)
        return FormField(
            name,
            _(FEW[name].label) if name in FEW else name.removeprefix("gate.").replace("_", " ").capitalize(),
            words(config.reasons()[name]),
            self.texts[name],
            texts(start_of(self.preset))[name],
            kind,
            tuple(map(str, choices)),
            is_optional,
            FEW.get(name),
            (self.errors or {}).get(name, ""),
        )


def start_of(preset: str) -> Recipe:
    """The recipe that a preset's name stands for; of none, the installation's. Raises RecipeInvalid."""
    return config.preset(preset) if preset else line_recipes.current()


def of_line(fields: Mapping[str, Any]) -> Draft:
    """The form of a line that learns by this, before a person types. A recipe that cannot be used any more is shown as
    its preset, with what is wrong."""
    preset = str(fields.get("preset", "embedded")) if fields else ""
    try:
        recipe = config.read(fields) if fields else line_recipes.current()
    except RecipeInvalid as failure:
        known = preset if preset in PRESETS or preset in published() else "embedded"
        return Draft(known, {"preset": known}, texts(config.preset(known)), errors={"": str(failure)})
    return Draft(preset, dict(fields), texts(recipe), fields=dict(fields))


def of_preset(preset: str) -> Draft:
    """The form filled with a preset's own values. Raises RecipeInvalid."""
    shown = {"preset": preset} if preset else {}
    return Draft(preset, shown, texts(start_of(preset)), fields=shown)


def composed(post: Mapping[str, str], standing: Mapping[str, Any]) -> Draft:
    """What a person typed, as a recipe. `standing` is what the line learns by, for a form that does not say what it
    showed.

    What differs from what the form showed was typed, as was what it says was typed before (`touched`), and stays, also
    where another preset was chosen; all else is the chosen preset's, or, where that is the one that was shown, as it
    was. A change to the installation's recipe makes it a recipe of the line's own.
    """
    shown = _shown(post.get("shown", ""), standing)
    before = texts(config.read(shown) if shown else line_recipes.current())
    said = {name: post[PREFIX + name] for name in before if PREFIX + name in post}
    earlier = post.get("touched", "").split()
    changed = {name: text for name, text in said.items() if text.strip() != before[name] or name in earlier}
    touched = tuple(changed)
    preset = post.get("preset", "")
    try:
        start = start_of(preset)
    except RecipeInvalid as failure:
        return Draft("", shown, before | changed, errors={"": str(failure)}, touched=touched)
    is_same = preset == (str(shown.get("preset", "embedded")) if shown else "")
    kept = config.read(shown) if is_same and shown else start
    if not changed and not preset:
        return Draft("", {}, texts(start), fields={})
    if not preset:
        preset = nearest(start)
    values = config.knobs(kept.model_dump()) | {name: read_text(name, text) for name, text in changed.items()}
    draft = Draft(preset, shown, texts(kept) | changed, touched=touched)
    try:
        recipe = line_recipes.usable(nested(values))
    except RecipeInvalid as failure:
        return replace(draft, errors=faults_by_knob(failure))
    fields = {"preset": preset} | differences(recipe, config.preset(preset))
    return replace(draft, shown=fields, texts=texts(recipe), fields=fields)


def _shown(said: str, standing: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the form says that it showed; what is no recipe any more is as if it had shown what stands."""
    try:
        shown = json.loads(said) if said else standing
        if isinstance(shown, dict):
            if shown:
                config.read(shown)
            return shown
    except (json.JSONDecodeError, RecipeInvalid):
        pass
    return {}


def nearest(recipe: Recipe) -> str:
    """The preset that differs from a recipe in the fewest knobs."""
    values = config.knobs(recipe.model_dump())
    presets = {name: config.knobs(preset.model_dump()) for name, preset in PRESETS.items()}
    return min(presets, key=lambda name: sum(values[knob] != presets[name][knob] for knob in values))


def nested(values: Mapping[str, object]) -> dict[str, Any]:
    """Knobs by name as a recipe has them, the gate's within it.

    >>> nested({"lr": 0.1, "gate.prompts": 4})
    {'lr': 0.1, 'gate': {'prompts': 4}}
    """
    found: dict[str, Any] = {}
    for name, value in values.items():
        room, dot, inner = name.partition(".")
        if dot:
            found.setdefault(room, {})[inner] = value
        else:
            found[name] = value
    return found


def differences(recipe: Recipe, start: Recipe) -> dict[str, Any]:
    """What of a recipe is not its preset's, as a line keeps it."""
    usual = config.knobs(start.model_dump())
    values = config.knobs(recipe.model_dump())
    return nested({name: value for name, value in values.items() if value != usual[name]})


def faults_by_knob(failure: RecipeInvalid) -> dict[str, str]:
    """What is wrong with a recipe, a sentence a knob; under "" what is of no knob alone."""
    cause = failure.__cause__
    if not isinstance(cause, ValidationError):
        return {"": str(failure)}
    found: dict[str, str] = {}
    for error in cause.errors():
        knob = ".".join(map(str, error["loc"]))
        said = _("must be a number") if error["type"] in NO_NUMBER else why(error)
        found.setdefault(knob, f"{said[:1].upper()}{said[1:]}.")
    return found
