"""What weights go back to: their ancestors with what each learned, and the tree of all checkpoints, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q

from training import batches
from training.models import Checkpoint, Run, Sample


@dataclass(frozen=True)
class Step:
    """One ancestor, and how much its own run learned."""

    checkpoint: Checkpoint
    samples: int
    taken_back: int
    """Of those, how many their people took back since."""


def ancestry(checkpoint: Checkpoint) -> list[Step]:
    """From this checkpoint to where its line began, nearest first."""
    parents = dict(Checkpoint.objects.values_list("pk", "parent"))
    line, here = [], checkpoint.pk
    while here is not None:
        line.append(here)
        here = parents[here]
    rows = Checkpoint.objects.select_related("run", "line").in_bulk(line)
    told = counts([run for pk in line if (run := rows[pk].run) is not None])
    return [Step(rows[pk], *told.get(rows[pk].run_id, (0, 0))) for pk in line]


GONE = Q(response_ids=[]) | ~Q(drop_reason="")
"""Samples that their people took back since they were learned."""


def counts(runs: Sequence[Run]) -> dict[int | None, tuple[int, int]]:
    """By run: how many samples it learned from, and how many of them were taken back since."""
    plain = Sample.objects.filter(run__in=runs, status=Sample.Status.TRAINED).order_by().values_list("run")
    told = {run: (all, gone) for run, all, gone in plain.annotate(a=Count("pk"), b=Count("pk", filter=GONE))}
    for run in runs:
        if run.again_id is not None:
            told[run.pk] = batches.learned(run).aggregate(a=Count("pk"), b=Count("pk", filter=GONE)).values()
    return {run: (all, gone) for run, (all, gone) in told.items()}


def samples(checkpoints: Sequence[Checkpoint]) -> Q:
    """Which samples these learned from."""
    runs = [one.run for one in checkpoints if one.run is not None]
    plain = [run.pk for run in runs if run.again_id is None]
    again = [pk for run in runs if run.again_id is not None for pk in run.learned]
    return Q(run__in=plain, status=Sample.Status.TRAINED) | Q(pk__in=again)


@dataclass(frozen=True)
class Node:
    """One row of the drawn tree: where its dot is, and the lines that pass."""

    checkpoint: Checkpoint
    lane: int
    through: list[int] = field(default_factory=list)
    """Lanes of others that pass this row from top to bottom."""
    above: list[int] = field(default_factory=list)
    """Lanes in which children come from above to this dot; its own among them where one does."""
    goes_on: bool = False
    """Whether its lane goes on below, to its parent."""


def tree(rows: Sequence[Checkpoint]) -> list[Node]:
    """The rows, newest first, each with its place in the drawing: a child is always above its parent, and of those
    that come to one parent each has a lane of its own until there. A row whose parent is not among them ends."""
    known = {row.pk for row in rows}
    waiting: list[int | None] = []
    """By lane: whose parent's row it is on its way to."""
    drawn = []
    for row in rows:
        above = [lane for lane, wanted in enumerate(waiting) if wanted == row.pk]
        lane = above[0] if above else _free(waiting)
        through = [at for at, wanted in enumerate(waiting) if wanted is not None and wanted != row.pk]
        for at in above:
            waiting[at] = None
        goes_on = row.parent_id in known
        if lane == len(waiting):
            waiting.append(None)
        waiting[lane] = row.parent_id if goes_on else None
        drawn.append(Node(row, lane, through, above, goes_on))
    return drawn


def _free(waiting: Sequence[int | None]) -> int:
    return next((lane for lane, wanted in enumerate(waiting) if wanted is None), len(waiting))


def colours(rows: Sequence[Checkpoint], most: int) -> Mapping[str, int]:
    """A number from 0 on for each line, the shared one first; they repeat after `most`."""
    lines = {row.line_id: row.line for row in rows}.values()
    named = sorted(lines, key=lambda line: (not line.is_shared, line.created_at))
    return {line.pk: at % most for at, line in enumerate(named)}
