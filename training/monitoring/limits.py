"""The one table of limits of a run's figures: what is worrying, what it means, and what to do. Pages and API ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from django.utils.translation import gettext_noop as _

from training.config import MAX_GRAD_NORM, Gate, Recipe

Steps = Sequence[Mapping[str, Any]]
"""A run's figures, a dict an update."""

Rule = Callable[[Steps, int, str, float], bool]
"""Whether the update at a place, by a figure's name, is past a limit."""


def number(value: object) -> float | None:
    """The value as a number; None for what is none, and for what is not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return float(value)


def _first(steps: Steps, name: str) -> float | None:
    return next((found for step in steps if (found := number(step.get(name))) is not None), None)


def is_above(steps: Steps, place: int, name: str, at: float) -> bool:
    value = number(steps[place].get(name))
    return value is not None and value > at


def is_missing(steps: Steps, place: int, name: str, at: float) -> bool:
    """Whether the figure is there and no number: runs keep NaN and infinity as null."""
    return name in steps[place] and number(steps[place][name]) is None


def is_zero(steps: Steps, place: int, name: str, at: float) -> bool:
    return number(steps[place].get(name)) == 0.0


def is_under_share(steps: Steps, place: int, name: str, at: float) -> bool:
    """Whether it fell under this share of the run's first."""
    value, first = number(steps[place].get(name)), _first(steps, name)
    return value is not None and first is not None and value < at * first


def is_over_share(steps: Steps, place: int, name: str, at: float) -> bool:
    """Whether it rose over this multiple of the run's first."""
    value, first = number(steps[place].get(name)), _first(steps, name)
    return value is not None and first is not None and first > 0 and value > at * first


def has_fallen_by(steps: Steps, place: int, name: str, at: float) -> bool:
    value, first = number(steps[place].get(name)), _first(steps, name)
    return value is not None and first is not None and first - value > at


def is_unchanged(steps: Steps, place: int, name: str, at: float) -> bool:
    """Whether it is what it was after the update before."""
    value = number(steps[place].get(name))
    return place > 0 and value is not None and value == number(steps[place - 1].get(name))


def teaches_nothing(steps: Steps, place: int, name: str, at: float) -> bool:
    """Whether all advantages are 0, and no teacher's distribution and no rewrite teaches instead of them."""
    step = steps[place]
    others = (number(step.get(loss)) for loss in ("distillation_loss", "supervised_loss"))
    return is_zero(steps, place, name, at) and number(step.get("advantage_min")) == 0.0 and not any(others)


@dataclass(frozen=True)
class Limit:
    """What of one figure is worrying."""

    key: str
    chart: str
    """The key of the chart that draws the figure."""
    figure: str
    """Its name in a run's metrics."""
    title: str
    kind: str
    """How a page words it: above, share_below, share_above, fall, missing, zero or unchanged."""
    rule: Rule
    meaning: str
    advice: str
    usual: float = 0.0
    """Where the limit is; a share, for some rules."""
    knob: str = ""
    """The recipe's knob that says where it is instead."""

    def at(self, recipe: Mapping[str, Any]) -> float:
        """Where it is for a run of this recipe, as a row keeps it.

        >>> by_key("gap").at({"max_gap": 0.2}), by_key("kl").at({"gate": {"kl": 1.5}}), by_key("kl").at({})
        (0.2, 1.5, 2.5)
        """
        found: object = recipe
        for part in self.knob.split(".") if self.knob else ("",):
            found = found.get(part) if isinstance(found, Mapping) else None
        known = number(found)
        return self.usual if known is None else known


LIMITS = (
    Limit(
        "loss_missing", "loss", "loss", _("Loss"), "missing", is_missing,
        _("The update went wrong, and what it made of the weights cannot be trusted."),
        _("Do not approve the checkpoint. Lower the rate (lr) and learn again."),
    ),
    Limit(
        "kl", "kl", "kl", _("KL to the base"), "above", is_above,
        _("The policy moved further from the base than its exam allows."),
        _("Raise beta, or take fewer updates."), usual=Gate().kl, knob="gate.kl",
    ),
    Limit(
        "entropy_low", "entropy", "entropy", _("Entropy"), "share_below", is_under_share,
        _("The policy is sure of everything, and may say the same whatever is asked."),
        _("Lower the rate (lr) or take fewer updates, and read the candidate's replies before you approve it."),
        usual=0.1,
    ),
    Limit(
        "entropy_high", "entropy", "entropy", _("Entropy"), "share_above", is_over_share,
        _("The policy comes apart: it no longer knows what to say next."),
        _("Lower the rate (lr), and read the candidate's replies before you approve it."), usual=2.0,
    ),
    Limit(
        "clip", "clip", "clip_fraction", _("Clip fraction"), "above", is_above,
        _("Much of the batch taught no more."), _("Lower the rate (lr), or take fewer updates."), usual=0.3,
    ),
    Limit(
        "advantages", "advantages", "advantage_max", _("Advantages"), "zero", teaches_nothing,
        _("No reply was better or worse than expected, so nothing was taught."),
        _("Rate replies both ways, or write what they should have said."),
    ),
    Limit(
        "gap", "gap", "gap_mean", _("Engine and learner"), "above", is_above,
        _("The engine that answers and the learner do not run the same weights alike."),
        _("See that both have the same model, in the same precision."), usual=Recipe().max_gap, knob="max_gap",
    ),
    Limit(
        "grad_norm", "grad_norm", "grad_norm", _("Gradient norm"), "above", is_above,
        _("Such updates were scaled down to the limit."),
        _("Once is no harm. Where it is every update, lower the rate (lr)."), usual=MAX_GRAD_NORM, knob="max_grad_norm",
    ),
    Limit(
        "grad_zero", "grad_norm", "grad_norm", _("Gradient norm"), "zero", is_zero,
        _("Such an update taught nothing."), _("See that the batch has feedback that this recipe learns from."),
    ),
    Limit(
        "adapter_unchanged", "adapter_norm", "adapter_norm", _("Adapter norm"), "unchanged", is_unchanged,
        _("The update did not move the weights."), _("Raise the rate (lr)."),
    ),
    Limit(
        "adapter_leap", "adapter_norm", "adapter_norm", _("Adapter norm"), "share_above", is_over_share,
        _("The weights leapt within one run."), _("Lower the rate (lr)."), usual=2.0,
    ),
    Limit(
        "closed", "closed", "closed_right", _("Closed questions"), "fall", has_fallen_by,
        _("What the model knew is going."), _("Raise w_closed or beta, or take fewer updates."), usual=0.4,
    ),
    Limit(
        "speed", "speed", "tokens_per_s", _("Tokens a second"), "share_below", is_under_share,
        _("The machine was short of memory, or something else worked on it."),
        _("Look at its memory below; a lower micro_batch takes less."), usual=1 / 3,
    ),
)  # fmt: skip
"""`closed`: of sixteen questions an update, 0.4 less is more than twice what chance does. `entropy_low`: the share at
which the exam's meter (gate/meter.py) speaks up, too."""


@dataclass(frozen=True)
class Passed:
    """A limit that a run passed."""

    limit: Limit
    at: float
    worst: float | None
    """The figure furthest past it; None where it is no number."""
    since: int
    """The first update that was past it."""
    count: int
    updates: int
    """Of so many updates that have the figure."""


def by_key(key: str) -> Limit:
    return next(limit for limit in LIMITS if limit.key == key)


def passed(metrics: Steps, recipe: Mapping[str, Any]) -> list[Passed]:
    """Which limits a run's figures passed, in the table's order; none: nothing is worrying.

    >>> [(one.limit.key, one.worst, one.since, one.count) for one in passed([{"clip_fraction": 0.34}], {})]
    [('clip', 0.34, 1, 1)]
    """
    steps = [step for step in metrics if isinstance(step, Mapping)]
    found = []
    for limit in LIMITS:
        at = limit.at(recipe)
        there = [place for place, step in enumerate(steps) if limit.figure in step]
        past = [place for place in there if limit.rule(steps, place, limit.figure, at)]
        if not past:
            continue
        values = [value for place in past if (value := number(steps[place][limit.figure])) is not None]
        furthest = min if limit.kind in ("share_below", "fall") else max
        since = number(steps[past[0]].get("update"))
        found.append(
            Passed(
                limit,
                at,
                furthest(values) if values else None,
                past[0] + 1 if since is None else int(since),
                len(past),
                len(there),
            )
        )
    return found


def line_of(chart: str, recipe: Mapping[str, Any]) -> float | None:
    """Where a chart draws its limit; None for a chart whose limits are none of height."""
    return next((one.at(recipe) for one in LIMITS if one.chart == chart and one.kind == "above"), None)


def told(found: Passed) -> dict[str, Any]:
    """A passed limit as JSON."""
    return {
        "limit": found.limit.key,
        "figure": found.limit.figure,
        "kind": found.limit.kind,
        "at": found.at,
        "worst": found.worst,
        "since_update": found.since,
        "updates": found.count,
        "of_updates": found.updates,
        "meaning": found.limit.meaning,
        "advice": found.limit.advice,
    }
