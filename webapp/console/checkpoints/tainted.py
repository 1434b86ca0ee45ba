"""Show tainted weights, which hold what was taken back, and the cleaning that replaces them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Case, Q, When
from django.utils.translation import gettext as _

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Taint
from gate.models import Examination
from training.models import Run
from training.provenance import cleaning
from training.provenance.cleaning import NothingToClean, Plan


@dataclass(frozen=True)
class Stand:
    """A cleaning as the page shows it."""

    row: Cleaning
    steps: list[tuple[Run, Run | None]]
    exams: list[Examination]
    """The replaced weights' own, and the result's, as far as there are such."""
    warning: str

    @property
    def is_active(self) -> bool:
        return self.row.status in cleaning.ACTIVE

    @property
    def is_over(self) -> bool:
        return self.row.status == Cleaning.Status.FINISHED

    @property
    def at(self) -> int:
        """The step that is at work, counted from 1."""
        done = sum(run is not None and run.status == Run.Status.FINISHED for _, run in self.steps)
        return min(done + 1, len(self.steps))

    @property
    def run(self) -> Run | None:
        """What is queued or running for it."""
        under_way = (Run.Status.QUEUED, Run.Status.RUNNING)
        return next((run for _, run in self.steps if run is not None and run.status in under_way), None)

    @property
    def figures(self) -> list[tuple[str, list[str]]]:
        """What the gate measured of both, a line each."""
        values: dict[str, list[str]] = {}
        for place, exam in enumerate(self.exams):
            for check in exam.checks:
                values.setdefault(check["name"], ["-"] * len(self.exams))[place] = f"{check['value']:.3g}"
        return [(name.replace("_", " "), row) for name, row in values.items()]


def stand(row: Cleaning) -> Stand:
    return stands([row])[0]


def stands(rows: Sequence[Cleaning]) -> list[Stand]:
    """Each of these, which come with their checkpoints. Three queries."""
    both = {pk for row in rows for pk in (row.replaces_id, row.result_id) if pk is not None}
    examined = Examination.objects.select_related("checkpoint").filter(checkpoint__in=both)
    exams = {exam.checkpoint_id: exam for exam in examined}
    tainted = set(Taint.objects.filter(checkpoint__in=both).values_list("checkpoint", flat=True))
    steps = cleaning.steps_of(rows)
    return [_stand(row, steps[row.pk], exams, is_tainted=row.result_id in tainted) for row in rows]


def _stand(
    row: Cleaning, steps: list[tuple[Run, Run | None]], exams: Mapping[int, Examination], *, is_tainted: bool
) -> Stand:
    warning = ""
    if is_tainted:
        warning = _("%(checkpoint)s learned something that was taken back since: learn it again once more.") % {
            "checkpoint": row.result
        }
    pair = (row.replaces_id, row.result_id) if row.result_id is not None else ()
    return Stand(row, steps, [exams[pk] for pk in pair if pk in exams], warning)


@dataclass(frozen=True)
class Tainted:
    """Weights that hold what was taken back, and what one click would do."""

    taint: Taint
    plan: Plan | None = None
    refusal: str = ""
    ready: Checkpoint | None = None
    """A clean line in its place that is examined, or waits for a person."""


WAITS = (Checkpoint.Status.CANDIDATE, Checkpoint.Status.PASSED, Checkpoint.Status.APPROVED)

READY = Q(result__status__in=WAITS, result__taints=None)
"""Cleanings whose result waits, and is clean still."""


def tainted(taint: Taint, made: Iterable[Cleaning] | None = None) -> Tainted:
    """What one click would do for it; `made` are the `READY` cleanings in its place, the newest first, where they are
    known."""
    if made is None:
        made = Cleaning.objects.filter(READY, replaces=taint.checkpoint).select_related("result")[:1]
    for done in made:
        return Tainted(taint, ready=done.result)
    try:
        return Tainted(taint, cleaning.plan(taint.checkpoint))
    except NothingToClean as refusal:
        return Tainted(taint, refusal=str(refusal))


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """What of this checkpoint's learning was taken back, and what it is to the cleanings."""
    taint = next(iter(checkpoint.taints.all()), None)
    if taint is None and not getattr(checkpoint, "is_cleaned", True):
        return None
    of = Cleaning.objects.select_related("line", "ancestor", "replaces", "result", "by")
    of = of.annotate(is_ready=Case(When(READY, then=True), default=False))
    active_here = Q(line=checkpoint.line, status__in=cleaning.ACTIVE)
    found = list(of.filter(active_here | Q(result=checkpoint) | Q(READY, replaces=checkpoint)))
    active = [one for one in found if one.line_id == checkpoint.line_id and one.status in cleaning.ACTIVE]
    made_by = next((one for one in found if one.result_id == checkpoint.pk), None)
    ready = [one for one in found if one.replaces_id == checkpoint.pk and one.is_ready]
    if taint is None and made_by is None:
        return None
    may_answer = checkpoint.status != Checkpoint.Status.REJECTED
    is_open = taint is not None and taint.cleaned_by_id is None and not active and may_answer
    return {
        "checkpoint": checkpoint,
        "taint": taint,
        "may_answer": may_answer,
        "found": tainted(taint, ready) if taint is not None and is_open else None,
        "active": next(iter(active), None),
        "stand": stand(made_by) if made_by is not None else None,
    }
