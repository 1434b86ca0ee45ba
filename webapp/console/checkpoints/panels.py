"""Collect the panels of a checkpoint's page: one a file of this folder, each with a template of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Subquery
from django.db.models.functions import Coalesce

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, CheckpointQuerySet, Trial
from episodes.models import Exam
from evaluation.models import Export
from training.models import Sample
from webapp.console.checkpoints import agents_played, tainted, tried, weights

Look = Callable[[Checkpoint, User], Mapping[str, Any] | None]
"""What the panel's template is given; None: this checkpoint has no such panel."""


@dataclass(frozen=True)
class Panel:
    """One card of the page, filled in."""

    place: str
    """now: beside what can be done; files: behind all. What is folded away is in `folds`."""
    template: str
    data: Mapping[str, Any]


LOOKS: Sequence[tuple[str, str, Look]] = (
    ("now", "gate/_agents_awaited.html", agents_played.awaited),
    ("now", "checkpoints/_guard.html", tried.guarded),
    ("now", "checkpoints/_tainted.html", tainted.panel),
    ("files", "checkpoints/_files.html", weights.panel),
)
"""(place, template, look) in the page's order."""


def with_notes(rows: CheckpointQuerySet) -> CheckpointQuerySet:
    """Each knows which panels would find rows of theirs, so that the others ask for none, and how many samples that it
    served no run has learned."""
    here = OuterRef("pk")
    ready = Sample.objects.filter(checkpoint=here, status=Sample.Status.READY).order_by().values("checkpoint")
    return rows.annotate(
        line_tries=Exists(Trial.objects.filter(line=OuterRef("line"), ended_at=None)),
        awaits_agents=Exists(Exam.objects.filter(candidate=here, ended_at=None)),
        is_cleaned=Exists(Cleaning.objects.filter(result=here)),
        is_exported=Exists(Export.objects.filter(checkpoint=here)),
        served_ready=Coalesce(Subquery(ready.annotate(n=Count("pk")).values("n")), 0),
    )


def panels(checkpoint: Checkpoint, user: User) -> list[Panel]:
    """This checkpoint's panels, as this person may see them."""
    found = ((place, template, look(checkpoint, user)) for place, template, look in LOOKS)
    return [Panel(place, template, data) for place, template, data in found if data is not None]
