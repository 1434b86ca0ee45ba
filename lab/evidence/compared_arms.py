"""Who is compared: the base, a prompt that says it all, one that shows it, and the recipes that learn. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from environments.errors import Unplayable

GUIDANCE = "(Guidance: {hint})"
"""How a wish is told beforehand: as Talkback words a hint to its teacher (judge/hints/hint_words.py), so that
prompt-only is what the teacher is."""

SHOTS = 4
"""What few-shot is shown: as much as a teacher is by the recipe of a small model."""

COMMON: dict[str, Any] = {"holdout": 0, "micro_batch": 4}
"""Of every recipe here. Nothing is kept from training for the gate's sake: the exam has prompts of its own. Of samples
as short as these a core takes several at once in three quarters of the time, and what they teach is the same."""


@dataclass(frozen=True)
class Arm:
    """One way to be answered."""

    name: str
    kind: Literal["frozen", "prompt", "shown", "trained"]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """A preset of training/config.py by its name, and what differs from it; empty where nothing learns."""

    @property
    def learns(self) -> bool:
        return self.kind == "trained"


ALL = "all"
"""Every arm there is, where arms are named, and every one that learns, before a knob."""

# The table that recipe research edits. Updates a run and samples a batch are the plan's, the same for all arms.
ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("base", "frozen"),
        Arm("prompt-only", "prompt"),
        Arm("few-shot", "shown"),
        Arm("binary", "trained", {"preset": "binary", "lr": 2e-4, "beta": 0.1, "max_tokens": 128}),
        Arm("opd", "trained", {"preset": "opd", "lr": 2e-4, "beta": 0.1, "max_tokens": 128}),
        Arm("topk", "trained", {"preset": "embedded", "distillation": "topk", "w_rl": 0}),
        Arm("combined", "trained", {"preset": "embedded"}),
    )
}

USUAL = tuple(name for name, arm in ARMS.items() if arm.kind != "shown")
"""The arms that are compared by default: few-shot's prompts are twenty times as long."""


def chosen(names: Iterable[str], settings: Iterable[str] = ()) -> tuple[Arm, ...]:
    """The arms of these names, in this order, or "all", with ARM.knob=value laid over their recipes; "gate.kl" is a
    knob too. `all.knob=value` is for every arm that learns. Raises Unplayable."""
    wanted = [name.strip() for name in names if name.strip()]
    wanted = list(ARMS) if wanted == [ALL] else wanted
    if not wanted:
        raise Unplayable(f"No arm is named. There are {', '.join(ARMS)}.")
    for name in wanted:
        if name not in ARMS:
            raise Unplayable(f"There is no arm {name!r}. There are {', '.join(ARMS)}.")
    if len(set(wanted)) < len(wanted):
        raise Unplayable("An arm is named twice: each runs once a seed.")
    laid = {name: dict(ARMS[name].recipe) for name in wanted}
    for setting in settings:
        arm, knob, value = _read(setting)
        over = [name for name in wanted if ARMS[name].learns and arm in (name, ALL)]
        if not over:
            raise Unplayable(f"--set {setting}: {arm} is no arm of this run that learns.")
        for name in over:
            laid[name] = _with(laid[name], knob, value)
    return tuple(Arm(name, ARMS[name].kind, laid[name]) for name in wanted)


def recipe(arm: Arm, *, updates: int, samples: int) -> dict[str, Any]:
    """What the arm's line learns by, as training.config.read takes it: what all have in common, under what is its own,
    and the plan's sizes over both. The gate is off unless the arm sets a knob of it: what it would ask, the probes ask,
    of many more prompts; and an arm whose worst checkpoints were turned away could not be seen going wrong."""
    own = {**COMMON, **arm.recipe, "updates": updates, "batch_size": samples}
    return own | {"gate": arm.recipe.get("gate") or {"off": True}}


def guided(prompt: str, hints: Sequence[str]) -> str:
    """The prompt with every wish said at its end.

    >>> guided("Why?", ["Be brief.", "Use no lists."])
    'Why?\\n\\n(Guidance: Be brief. Use no lists.)'
    """
    return f"{prompt}\n\n{GUIDANCE.format(hint=' '.join(hints))}"


def _read(setting: str) -> tuple[str, str, Any]:
    """ARM, knob and value of "binary.lr=1e-4"; a value that is no JSON is a word."""
    name, equals, value = setting.partition("=")
    arm, dot, knob = name.strip().partition(".")
    if not (equals and dot and arm and knob):
        raise Unplayable(f"--set {setting}: it reads ARM.knob=value, as in combined.lr=0.001.")
    try:
        return arm, knob, json.loads(value)
    except json.JSONDecodeError:
        return arm, knob, value


def _with(recipe: dict[str, Any], knob: str, value: Any) -> dict[str, Any]:
    if knob == "preset":  # another beginning: what was written against the old one does not hold
        return {"preset": value}
    outer, dot, inner = knob.partition(".")
    return recipe | {outer: {**recipe.get(outer, {}), inner: value} if dot else value}
