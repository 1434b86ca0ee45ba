"""A clean line: what was learned since the last untainted checkpoint is learned again, run by run, without what was
taken back.

The rows say what is due: which steps are done is read off the runs, one transaction makes the next one or ends it all,
and a worker may die at any line. What is promised is exact: the weights that come out never saw the samples that were
taken back. They are not what would have come of never having learned them: what the tainted weights said while they
answered, and what people said of that, is still among what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Taint
from core.errors import IllegalMove, TalkbackError
from training import batches, config, runs
from training.config import Recipe
from training.models import Run
from training.provenance.taints import Family

ACTIVE = (Cleaning.Status.QUEUED, Cleaning.Status.RUNNING)

SAYS = {
    "gone": gettext_noop("%(ancestor)s, which it began with, will not do any more. Begin again."),
    "nothing": gettext_noop(
        "Nothing is left to be learned again: roll back to %(ancestor)s, which never saw what was taken back."
    ),
    "step": gettext_noop("A step of cleaning %(number)s: only what its last step makes is examined."),
}
"""Why a cleaning failed, and its steps are not examined. Rows keep it in English (webapp.serving.retold)."""


class NothingToClean(TalkbackError):
    """There is nothing to learn again, or nothing that could be."""

    code, status = "nothing_to_clean", 409


class AlreadyCleaning(TalkbackError):
    """One cleaning of a line at a time."""

    code, status = "already_cleaning", 409


@dataclass(frozen=True)
class Step:
    """A run to be repeated."""

    run: Run
    left: int
    """How many of its samples would still teach something; 0: it is passed over."""
    removed: int
    """How many of its samples were taken back."""


@dataclass(frozen=True)
class Plan:
    """What one click would do."""

    replaces: Checkpoint
    ancestor: Checkpoint
    steps: Sequence[Step]

    @property
    def removed(self) -> int:
        return sum(step.removed for step in self.steps)

    @property
    def left(self) -> int:
        return sum(step.left for step in self.steps)

    @property
    def due(self) -> list[Step]:
        return [step for step in self.steps if step.left]


def plan(checkpoint: Checkpoint) -> Plan:
    """From which weights, and by which runs, this checkpoint would be learned again. Where the weights of the last
    untainted one are gone it begins further back. Raises NothingToClean."""
    family = Family.read()
    line = family.line(checkpoint.pk)[::-1]
    clean = list(takewhile(lambda pk: not family.own[pk], line))
    if len(clean) == len(line):
        raise NothingToClean(_("Nothing that %(checkpoint)s learned was taken back.") % {"checkpoint": checkpoint})
    rows = Checkpoint.objects.select_related("run__again").in_bulk(line)
    while not has_weights(rows[clean[-1]]):
        clean.pop()
    after = [rows[pk] for pk in line[len(clean) :]]
    steps = []
    for one in after:
        if (run := Run.that_made(one)) is None:
            raise NothingToClean(
                _(
                    "%(checkpoint)s was made elsewhere, so what it learned is not here to be learned again. What lies "
                    "before it is free of what was taken back: roll back to that, or import it anew."
                )
                % {"checkpoint": one}
            )
        run = run.again or run
        steps.append(Step(run, batches.left(run, recipe_of(run)).count(), family.own[one.pk].total()))
    planned = Plan(checkpoint, rows[clean[-1]], steps)
    if not planned.due:
        raise NothingToClean(
            _(
                "Nothing is left of what %(checkpoint)s learned since %(ancestor)s: roll back to %(ancestor)s, which "
                "never saw it."
            )
            % {"checkpoint": checkpoint, "ancestor": planned.ancestor}
        )
    return planned


def has_weights(checkpoint: Checkpoint) -> bool:
    """Whether a run can go on from it: the base is always there, others until retention lets go of them."""
    folder = checkpoint.folder
    return folder is None or (checkpoint.let_go_at is None and folder.is_dir())


def recipe_of(run: Run) -> Recipe:
    return config.stored(run.recipe)


def start(checkpoint: Checkpoint, *, by: User | None) -> Cleaning:
    """Have what this checkpoint learned be learned again without what was taken back. The result waits for the gate
    and for a person, as every candidate does. Raises NothingToClean or AlreadyCleaning."""
    planned = plan(checkpoint)
    try:
        with transaction.atomic():
            return Cleaning.objects.create(
                line=checkpoint.line,
                ancestor=planned.ancestor,
                replaces=checkpoint,
                steps=[step.run.pk for step in planned.steps],
                removed=planned.removed,
                by=by,
            )
    except IntegrityError as error:
        said = _("%(line)s is being learned again already: one at a time.") % {"line": checkpoint.line}
        raise AlreadyCleaning(said) from error


def go_on(pk: int) -> Cleaning:
    """Do what is due of a cleaning: make the run of its next step, or end it. Safe to call at any time, and twice."""
    with transaction.atomic():
        cleaning = Cleaning.objects.select_for_update(of=("self",)).select_related("ancestor", "replaces").get(pk=pk)
        if cleaning.status not in ACTIVE:
            _put_away(cleaning)
            return cleaning
        last = cleaning.runs.order_by("pk").last()
        if last is not None and last.status in (Run.Status.QUEUED, Run.Status.RUNNING):
            return cleaning
        if cleaning.status == Cleaning.Status.QUEUED:
            cleaning.move(Cleaning.Status.RUNNING, error="")
        elif last is not None and last.status == Run.Status.FAILED:
            return _fail(cleaning, last.error)
        if Taint.objects.filter(checkpoint=cleaning.ancestor).exists() or not has_weights(cleaning.ancestor):
            return _fail(cleaning, SAYS["gone"] % {"ancestor": cleaning.ancestor})
        _catch_up(cleaning)
        here, done = _reached(cleaning)
        _put_away(cleaning, but=here)
        for number in cleaning.steps[done:]:
            run = Run.objects.get(pk=number)
            if not batches.left(run, recipe_of(run)).exists():
                continue
            _put_away(cleaning)
            _repeat(cleaning, run, here)
            return cleaning
        if here == cleaning.ancestor:
            return _fail(cleaning, SAYS["nothing"] % {"ancestor": here})
        if here.status != Checkpoint.Status.CANDIDATE:  # a step once, and the last one now: it was put away
            _repeat(cleaning, here.run.again, here.parent)  # type: ignore[union-attr, arg-type]
            return cleaning
        cleaning.move(Cleaning.Status.FINISHED, result=here, finished_at=timezone.now())
        here.announce()  # now the gate may look at it
        return cleaning


def cancel(cleaning: Cleaning) -> None:
    """Stop it, and the run that is at work on it. IllegalMove when it is over."""
    with transaction.atomic():
        locked = Cleaning.objects.select_for_update().get(pk=cleaning.pk)
        if locked.status not in ACTIVE:
            said = _("This cleaning is %(status)s: there is nothing to stop.")
            raise IllegalMove(said % {"status": _(locked.status)})
        for run in locked.runs.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)):
            runs.cancel(run)
        _fail(locked, gettext_noop("Stopped by a person. What was learned so far is kept until a person has it go on."))


def again(cleaning: Cleaning) -> None:
    """Have one that failed, or was stopped, go on from the last step that is done. Raises AlreadyCleaning, and
    IllegalMove when it did not fail."""
    locked = Cleaning.objects.get(pk=cleaning.pk)
    try:
        with transaction.atomic():
            locked.move(Cleaning.Status.QUEUED, finished_at=None)
    except IntegrityError as error:
        said = _("%(line)s is being learned again already: one at a time.") % {"line": locked.line}
        raise AlreadyCleaning(said) from error


def is_step(checkpoint: Checkpoint) -> bool:
    """Whether it is only a step of a cleaning, which the gate does not examine: the last one's result alone is to
    answer."""
    run = Run.that_made(checkpoint)
    cleaning = run.cleaning if run is not None else None
    return cleaning is not None and cleaning.result_id != checkpoint.pk


def unfinished() -> list[int]:
    """The cleanings that something is due of, whatever was heard of them: for the sweep."""
    active = Cleaning.objects.filter(status__in=ACTIVE)
    stopped = Cleaning.objects.filter(
        status=Cleaning.Status.FAILED, runs__checkpoint__status=Checkpoint.Status.CANDIDATE
    )
    return sorted({*active.values_list("pk", flat=True), *stopped.values_list("pk", flat=True)})


@transaction.atomic
def settle() -> None:
    """Name the taints in whose place a clean line answers. One that answers again is a taint as before."""
    status = Checkpoint.Status
    Taint.objects.filter(checkpoint__status=status.LIVE).update(cleaned_by=None)
    open_ = Taint.objects.filter(cleaned_by=None).exclude(checkpoint__status=status.LIVE)
    if not open_.exists():
        return
    family = Family.read()
    for cleaning in Cleaning.objects.filter(result__status=status.LIVE):
        line = family.line(cleaning.replaces_id)
        open_.filter(checkpoint__in=line[: line.index(cleaning.ancestor_id)]).update(cleaned_by=cleaning)


def steps(cleaning: Cleaning) -> list[tuple[Run, Run | None]]:
    """Each run that is to be repeated, in order, with the newest run that repeats it; None: not yet, or not at all."""
    return steps_of([cleaning])[cleaning.pk]


def steps_of(cleanings: Sequence[Cleaning]) -> dict[int, list[tuple[Run, Run | None]]]:
    """The `steps` of each of these, by its key. One query."""
    wanted = {pk for cleaning in cleanings for pk in cleaning.steps}
    rows = Run.objects.filter(Q(pk__in=wanted) | Q(cleaning__in=cleanings)).select_related("checkpoint").order_by("pk")
    known = {run.pk: run for run in rows}
    newest = {(run.cleaning_id, run.again_id): run for run in known.values()}
    return {
        cleaning.pk: [(known[pk], newest.get((cleaning.pk, pk))) for pk in cleaning.steps if pk in known]
        for cleaning in cleanings
    }


def _catch_up(cleaning: Cleaning) -> None:
    """Where the line was trained on from what is to be replaced meanwhile, that is repeated as well."""
    live = Checkpoint.live(cleaning.line_id)
    family = Family.read()
    line = family.line(live.pk)[::-1]
    if live.pk == cleaning.replaces_id or cleaning.replaces_id not in line or cleaning.ancestor_id not in line:
        return
    after = line[line.index(cleaning.ancestor_id) + 1 :]
    rows = Checkpoint.objects.select_related("run").in_bulk(after)
    made = [Run.that_made(rows[pk]) for pk in after]
    if any(run is None for run in made):
        return
    cleaning.replaces = live
    cleaning.steps = [run.again_id or run.pk for run in made if run is not None]
    cleaning.removed = sum(family.own[pk].total() for pk in after)
    cleaning.save(update_fields=["replaces", "steps", "removed"])


def _reached(cleaning: Cleaning) -> tuple[Checkpoint, int]:
    """The weights that the next step goes on from, and how many steps are behind them. What was tainted since, or let
    go of, is learned once more."""
    here, done = cleaning.ancestor, 0
    finished = cleaning.runs.filter(status=Run.Status.FINISHED).select_related("checkpoint").order_by("pk")
    tainted = set(Taint.objects.filter(checkpoint__run__cleaning=cleaning).values_list("checkpoint", flat=True))
    made = [(run, run.checkpoint) for run in finished if run.checkpoint is not None]
    grown = {run.parent_id: (run.again_id, checkpoint) for run, checkpoint in made if checkpoint.pk not in tainted}
    while here.pk in grown:
        again, checkpoint = grown[here.pk]
        if again not in cleaning.steps or not has_weights(checkpoint):
            break
        here, done = checkpoint, cleaning.steps.index(again) + 1
    return here, done


def _repeat(cleaning: Cleaning, run: Run, parent: Checkpoint) -> None:
    """Queue one step. A person asked for it: hours and budget do not hold it back, others' runs and a pause do."""
    Run.objects.create(
        line_id=cleaning.line_id,
        recipe=run.recipe,
        seed=run.seed,
        parent=parent,
        again=run,
        cleaning=cleaning,
        asked=True,
    )


def _fail(cleaning: Cleaning, reason: str) -> Cleaning:
    cleaning.move(Cleaning.Status.FAILED, error=reason, finished_at=timezone.now())
    _put_away(cleaning)
    return cleaning


def _put_away(cleaning: Cleaning, but: Checkpoint | None = None) -> None:
    """Reject the steps' own checkpoints: they are neither examined nor served, and runs can go on from them."""
    steps = Checkpoint.objects.filter(run__cleaning=cleaning, status=Checkpoint.Status.CANDIDATE)
    for one in steps.exclude(pk__in=[but.pk if but else 0, cleaning.result_id or 0]):
        one.decide(
            Checkpoint.Status.REJECTED,
            by=None,
            reason=SAYS["step"] % {"number": cleaning.pk},
        )
