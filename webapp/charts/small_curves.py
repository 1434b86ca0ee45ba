"""Chart one metric over the updates of a run and of its ancestors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from webapp.charts.figures import ABOUT, HIDDEN
from webapp.charts.frame import Frame, Point, is_number, joined

FRAME = Frame(200, 56, left=4, right=4, top=4, bottom=4)

FIRST = ("loss", "policy_loss", "distillation_loss", "kl", "entropy", "grad_norm", "adapter_norm", "ratio_mean")
"""What is looked at first, where a run has it; the rest follows in the order it was logged."""


@dataclass(frozen=True)
class Curve:
    """One metric over updates. `own_from` is where the shown run begins; what lies before is its ancestors'."""

    name: str
    values: tuple[float, ...]
    own_from: int = 0
    frame: Frame = FRAME

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")

    @property
    def reading(self) -> str:
        """What it says, in words; empty for a figure that has none."""
        return next((_(about.reading) for about in ABOUT if self.name in about.names), "")

    @property
    def points(self) -> list[Point]:
        """Each value's place in the picture; one alone stands at its beginning."""
        low, high = min(self.values), max(self.values)
        steps = max(1, len(self.values) - 1)
        return [Point(FRAME.across(i / steps), FRAME.up(v, low, high)) for i, v in enumerate(self.values)]

    @property
    def before(self) -> str:
        """The ancestors' part of the line."""
        return joined(self.points[: self.own_from])

    @property
    def own(self) -> str:
        """The run's own part, begun where its ancestors ended."""
        return joined(self.points[max(0, self.own_from - 1) :])

    @property
    def end(self) -> Point:
        return self.points[-1]

    @property
    def last(self) -> float:
        return self.values[-1]

    @property
    def sentence(self) -> str:
        if len(self.values) == 1:
            return _("%(name)s: %(value)s in its one update.") % {"name": self.title, "value": f"{self.last:.4g}"}
        said = _("%(name)s: from %(first)s to %(last)s in %(updates)s updates, between %(low)s and %(high)s.")
        return said % {
            "name": self.title,
            "first": f"{self.values[0]:.4g}",
            "last": f"{self.last:.4g}",
            "updates": len(self.values),
            "low": f"{min(self.values):.4g}",
            "high": f"{max(self.values):.4g}",
        }


def curves(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[Curve]:
    """The metrics of a run (the last of `runs`) behind those of its ancestors, one curve a metric."""
    own = runs[-1] if runs else ()
    numeric = [name for name in (own[0] if own else {}) if is_number(own[0][name]) and name not in HIDDEN]
    names = [name for name in FIRST if name in numeric] + [name for name in numeric if name not in FIRST]
    drawn = []
    for name in names:
        before = [step[name] for steps in runs[:-1] for step in steps if is_number(step.get(name))]
        values = [step[name] for step in own if is_number(step.get(name))]
        drawn.append(Curve(name, tuple(map(float, [*before, *values])), own_from=len(before)))
    return drawn
