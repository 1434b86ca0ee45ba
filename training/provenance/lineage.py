"""What weights go back to: their ancestors with what each learned, and the tree of all checkpoints, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q

from checkpoints.models import Checkpoint
from core.among import Among
from training import batches
from training.models import Run, Sample


@dataclass(frozen=True)
class Step:
    """One ancestor, and how much its own run learned."""

    checkpoint: Checkpoint
    samples: int
    taken_back: int
    """Of those, how many their people took back since."""


def ancestry(checkpoint: Checkpoint) -> list[Step]:
    """From this checkpoint to where its line began, nearest first."""
    made = [(one, Run.that_made(one)) for one in ancestors(checkpoint)]
    told = counts([run for _, run in made if run is not None])
    return [Step(one, *told.get(run.pk if run else None, (0, 0))) for one, run in made]


def ancestors(checkpoint: Checkpoint) -> list[Checkpoint]:
    """This checkpoint and those before it, nearest first, each with its run, without what may be long. Two queries."""
    line = batches.ancestry(checkpoint)
    rows = Checkpoint.objects.select_related("run", "line").defer(*LONG).in_bulk(line)
    return [rows[pk] for pk in line]


LONG = ("probe", "made", *(f"run__{name}" for name in ("recipe", "progress", "metrics", "usage", "agents")))
"""Columns that no list of ancestors shows."""


GONE = Q(response_ids=[]) | ~Q(drop_reason="")
"""Samples that their people took back since they were learned."""


def counts(runs: Sequence[Run]) -> dict[int | None, tuple[int, int]]:
    """By run: how many samples it learned from, and how many of them were taken back since."""
    plain = Sample.objects.filter(run__in=runs, status=Sample.Status.TRAINED).order_by().values_list("run")
    told: dict[int | None, tuple[int, int]] = {}
    told |= {run: (all, gone) for run, all, gone in plain.annotate(a=Count("pk"), b=Count("pk", filter=GONE))}
    for run in runs:
        if run.again_id is not None:
            again = batches.learned(run).aggregate(all=Count("pk"), gone=Count("pk", filter=GONE))
            told[run.pk] = again["all"], again["gone"]
    return told


def samples(checkpoints: Sequence[Checkpoint]) -> Q:
    """Which samples these learned from."""
    runs = [run for one in checkpoints if (run := Run.that_made(one)) is not None]
    plain = [run.pk for run in runs if run.again_id is None]
    again = [pk for run in runs if run.again_id is not None for pk in run.learned]
    learned = Q(run__in=Among(plain), status=Sample.Status.TRAINED)
    return learned | Q(pk__in=Among(again)) if again else learned


@dataclass(frozen=True)
class Thread:
    """A line of the drawing, on its way from a checkpoint down to its parent."""

    lane: int
    child: Checkpoint


@dataclass(frozen=True)
class Node:
    """One row of the drawn tree: where its dot is, and the threads at it."""

    checkpoint: Checkpoint
    lane: int
    through: list[Thread] = field(default_factory=list)
    """Those that pass this row from top to bottom."""
    above: list[Thread] = field(default_factory=list)
    """Those that come from its children above, and end in its dot."""
    goes_on: bool = False
    """Whether one begins at its dot, on its lane."""

    @property
    def lanes(self) -> list[int]:
        return [self.lane, *(thread.lane for thread in self.through)]


def tree(rows: Sequence[Checkpoint]) -> list[Node]:
    """The rows, newest first, each with its place in the drawing: a child is always above its parent, and of those
    that come to one parent each has a lane of its own until there. A row whose parent is not among them ends."""
    known = {row.pk for row in rows}
    lanes: list[Checkpoint | None] = []
    """By lane: whose thread is in it."""
    drawn = []
    for row in rows:
        threads = [Thread(lane, child) for lane, child in enumerate(lanes) if child is not None]
        above = [thread for thread in threads if thread.child.parent_id == row.pk]
        through = [thread for thread in threads if thread.child.parent_id != row.pk]
        lane = above[0].lane if above else _free(lanes)
        for thread in above:
            lanes[thread.lane] = None
        goes_on = row.parent_id in known
        if lane == len(lanes):
            lanes.append(None)
        lanes[lane] = row if goes_on else None
        drawn.append(Node(row, lane, through, above, goes_on))
    return drawn


def _free(lanes: Sequence[Checkpoint | None]) -> int:
    return next((lane for lane, child in enumerate(lanes) if child is None), len(lanes))


def colours(rows: Sequence[Checkpoint], most: int) -> Mapping[str | None, int]:
    """A number from 0 on for each line, the shared one first; they repeat after `most`."""
    lines = {row.line_id: row.line for row in rows}.values()
    named = sorted(lines, key=lambda line: (not line.is_shared, line.created_at))
    return {line.pk: at % most for at, line in enumerate(named)}
