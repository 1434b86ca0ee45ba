"""Collect the panels of a checkpoint's page: one a file of this folder, each with a template of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from checkpoints.models import Checkpoint
from webapp.console.checkpoints import agents_played, descent, exams, tainted, tried, weights

Look = Callable[[Checkpoint, User], Mapping[str, Any] | None]
"""What the panel's template is given; None: this checkpoint has no such panel."""


@dataclass(frozen=True)
class Panel:
    """One card of the page, filled in."""

    place: str
    """now: beside what can be done; figures and made: under the fold of that name; files: behind all."""
    template: str
    data: Mapping[str, Any]


LOOKS: Sequence[tuple[str, str, Look]] = (
    ("now", "gate/_agents_awaited.html", agents_played.awaited),
    ("figures", "gate/_exam_parts.html", exams.panel),
    ("figures", "gate/_agents_played.html", agents_played.panel),
    ("now", "checkpoints/_guard.html", tried.guarded),
    ("now", "checkpoints/_tainted.html", tainted.panel),
    ("files", "checkpoints/_files.html", weights.panel),
)
"""(place, template, look) in the page's order."""


def panels(line: list[Checkpoint], user: User) -> list[Panel]:
    """The panels of the first of these, which the others are the ancestors of, as this person may see them."""
    found = ((place, template, look(line[0], user)) for place, template, look in LOOKS)
    shown = [Panel(place, template, data) for place, template, data in found if data is not None]
    return [*shown, Panel("made", "checkpoints/_lineage.html", descent.panel(line))]
