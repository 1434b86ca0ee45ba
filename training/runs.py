"""One run: from claimed samples to a candidate. What it does with weights stands in `training/learning.py`.

The rows say what is due at any moment, so a run may be killed at any line. Weights are written whole, by a rename,
before the one transaction that makes the candidate, finishes the run and marks its samples trained. Until that
transaction nothing has happened; after it nothing is left to do. A worker that is asked to stop (`core/stops.py`) ends
the run where there is time for it, else queues it again: its samples stay claimed, the next worker goes on after the
last update that was done (`training/snapshots.py`), and it counts as no death.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Max
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from checkpoints import checksums
from checkpoints.models import Checkpoint
from core import stops
from core.errors import IllegalMove, TalkbackError
from core.stores import DiskFull
from gpu_workers import engines
from gpu_workers.engine.stamps import FULL
from gpu_workers.errors import NothingLearned, OutOfMemory
from training import (
    batches,
    config,
    hours,
    jobs,
    launch,
    learnable,
    learning,
    lessons,
    outside,
    snapshots,
    versions,
)
from training.agents import alarms, comparison
from training.agents.comparison import Comparison
from training.config import Recipe
from training.jobs import Learned
from training.models import Run, Sample
from training.monitoring.usage import Meter
from training.next_run import forecast
from training.objective import question_bank
from training.provenance import base_model, receipts, taints
from training.running import patience
from training.running.disk_room import check_room, is_full, is_room_for_two, say_room
from training.running.orphans import clear_orphans, clear_snapshots
from training.running.patience import patiently
from training.running.run_ledger import Cancelled, Ledger, Lost
from training.running.run_locks import hold, lock_of

log = logging.getLogger(__name__)

SILENCE_S = 120
"""A running run that has not been heard of for this long has lost its worker, where only the row can tell."""

HUNG_S = 900
"""The same for a worker that is alive on this machine: slow is not dead, but this is not slow any more."""

ATTEMPTS = 3
"""How many workers may die on one run before it fails."""


@dataclass(frozen=True)
class Made:
    """New weights on disk, before a row says so."""

    number: int
    name: str
    path: Path
    """Relative to DATA_DIR."""
    files: dict[str, str]
    base: dict[str, Any]
    """As `base_model.base` says."""


def train(run: Run) -> Checkpoint | None:
    """Bring a queued run to its candidate; None when it is not due, has to wait, another one runs, it failed, or the
    worker was asked to stop.

    Safe to call twice and from two workers. A failure with a name fails the run with its sentence and gives its
    samples back; any other failure does the same with the error's own words, and is raised. While the worker stops,
    what fails may fail for that, as processes do that were told to end with it: the run is queued again. The next
    queued run is announced in the end.
    """
    with hold(run) as held:
        return _train(run) if held and hours.waiting(run) is None and _begin(run) else None


def _train(run: Run) -> Checkpoint | None:
    try:
        with stops.handing_back(partial(_put_back, run)):
            return _learn(run)
    except Lost as failure:
        log.warning("%s", failure)
        return None
    except Exception as failure:
        is_named = isinstance(failure, TalkbackError)
        if stops.is_asked() and not isinstance(failure, Cancelled):
            log.warning("%s is queued again: %s", run, failure)
            _put_back(run)
            return None
        if is_named:
            log.warning("%s failed: %s", run, failure)
        _give_up(run, str(failure) if is_named else _sentence(failure))
        if is_named:
            return None
        raise
    finally:
        clear_snapshots()
        # Repeated runs stand behind all others: people wait for what they have just taught.
        queued = Run.objects.filter(status=Run.Status.QUEUED)
        following = queued.order_by(F("again").asc(nulls_first=True), "pk").first()
        if following is not None:
            following.announce()


@transaction.atomic
def cancel(run: Run) -> None:
    """Stop a run: at once when it is queued, at its next sample when it is running. IllegalMove when it is over."""
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.status == Run.Status.QUEUED:
        fail(run, gettext_noop("Stopped by a person before it began."))
    elif not Run.objects.filter(pk=run.pk, status=Run.Status.RUNNING).update(cancel_asked=True):
        said = _("%(run)s is %(status)s: there is nothing to stop.")
        raise IllegalMove(said % {"run": run, "status": _(run.status)})


@transaction.atomic
def fail(run: Run, reason: str) -> None:
    """End a run that came to nothing; its samples are READY again. Nothing happens when it is over already."""
    run = Run.objects.select_for_update().get(pk=run.pk)
    if Run.Status.FAILED not in Run.MOVES[run.status]:
        return
    run.move(Run.Status.FAILED, error=reason, finished_at=timezone.now())
    batches.release(run)


@transaction.atomic
def _give_up(run: Run, reason: str) -> None:
    """Fail a run as the worker that had it; nothing happens when it was given to another one meanwhile."""
    mine = Run.objects.select_for_update().filter(pk=run.pk, status=Run.Status.RUNNING, attempts=run.attempts)
    if mine.first() is None:
        log.warning("%s was given to another worker after a silence; this one ended with: %s", run, reason)
        return
    fail(run, reason)


@transaction.atomic
def _put_back(run: Run) -> None:
    """Queue a run again as the worker that had it and was asked to stop; nothing happens when it is over, or another
    worker has it. Its samples stay claimed. No attempt is counted: a run does not fail for being stopped often."""
    mine = Run.objects.select_for_update().filter(pk=run.pk, status=Run.Status.RUNNING, attempts=run.attempts).first()
    if mine is not None:
        mine.move(Run.Status.QUEUED, progress={}, attempts=mine.attempts - 1)


def recover() -> list[Run]:
    """Take back runs whose worker is gone: queue them again, or fail them when workers keep dying. Returns them."""
    taken = []
    for run in Run.objects.filter(status=Run.Status.RUNNING):
        if not _is_abandoned(run):
            continue
        if (found := _take_back(run)) is not None:
            taken.append(found)
    return taken


@transaction.atomic
def _take_back(run: Run) -> Run | None:
    """Queue or fail a run as it was looked at; None where it has moved meanwhile, since its worker may have handed it
    back in good order."""
    mine = Run.objects.select_for_update().filter(pk=run.pk, status=Run.Status.RUNNING, attempts=run.attempts).first()
    if mine is None:
        return None
    try:
        if mine.attempts >= ATTEMPTS:
            fail(mine, f"{mine.attempts} workers died on it, the last one silently; see the learn worker's log.")
        else:
            log.warning("%s lost its worker: it is queued again", mine)
            mine.move(Run.Status.QUEUED, progress={})
    except IllegalMove:  # another sweep was quicker
        return None
    return mine


def _is_abandoned(run: Run) -> bool:
    silence_s = (timezone.now() - (run.heartbeat_at or run.moved_at)).total_seconds()
    if not lock_of(run).exists():  # its worker is on another machine
        return silence_s > SILENCE_S
    with hold(run, only_try=True) as was_free:
        return was_free or silence_s > HUNG_S


def _begin(run: Run) -> bool:
    """Make the run this worker's. At most one run is running, and it goes on from what is live in its line now."""
    with transaction.atomic():
        Checkpoint.objects.select_for_update().get(number=0)  # one worker at a time, and no swap meanwhile
        if Run.objects.filter(status=Run.Status.RUNNING).exists() or _gives_way(run):
            return False
        now = timezone.now()
        try:
            run.refresh_from_db()
            run.move(
                Run.Status.RUNNING,
                parent=run.parent if run.again_id else Checkpoint.live(run.line_id),
                attempts=run.attempts + 1,
                heartbeat_at=now,
                started_at=now,
                progress={"phase": "loading", "done": 0, "total": 1, "share": 0.0, "eta_s": None},
                metrics=[],
                usage=[],
                error="",
                code_version=versions.ours()[:80],
            )
        except (IllegalMove, Run.DoesNotExist):
            return False
    return True


def _gives_way(run: Run) -> bool:
    """Whether this run repeats another one, and one that does not could begin in its place."""
    if run.again_id is None:
        return False
    others = Run.objects.filter(status=Run.Status.QUEUED, again=None)
    return any(hours.waiting(other) is None for other in others)


def _learn(run: Run) -> Checkpoint:
    with Meter(lambda: len(run.metrics)) as meter:
        return _learn_measured(run, meter)


def _learn_measured(run: Run, meter: Meter) -> Checkpoint:
    recipe = config.stored(run.recipe)
    parent = run.parent
    assert parent is not None
    learnable.require()  # MODEL may be another since the run was queued
    samples = _samples(run, parent, recipe)
    if parent.kind not in (Checkpoint.Kind.BASE, recipe.weights):
        raise NothingLearned(f"{parent} holds {parent.kind} weights: a {recipe.weights} run cannot go on from it.")
    checksums.verify(parent, with_optimizer=True)
    lesson = lessons.compose(run, samples, recipe, parent)
    # Looking at a row is one unit of work, an update on it about three: there and back again.
    ledger = Ledger(run, len(lesson.examples) * (1 + 3 * recipe.updates), meter)
    ledger.beat("loading", 0, 1, force=True)
    clear_orphans()
    check_room(recipe)
    number = (Checkpoint.objects.aggregate(Max("number"))["number__max"] or 0) + 1
    name = f"{settings.MODEL_NAME}-{number}-{uuid.uuid4().hex[:8]}".replace("/", "-")
    path = Path("checkpoints") / name
    snapshot = snapshots.home(Path(settings.DATA_DIR)) / str(run.pk)
    has_snapshot = (
        recipe.weights == "lora" and not outside.is_outside() and (snapshot.exists() or is_room_for_two(recipe))
    )
    job = jobs.Job(
        model=settings.MODEL,
        start=parent.folder,
        recipe=recipe,
        seed=run.seed,
        examples=lesson.examples,
        is_own=lesson.is_own,
        folder=Path(settings.DATA_DIR) / path,
        replayed=lesson.replayed,
        questions=question_bank.draw(recipe, run.seed),
        is_sharded=settings.LEARN_SHARDED,
        gives_way_to=engines.addresses() if settings.LEARN_GIVES_WAY else (),
        snapshot=snapshot if has_snapshot else None,
        code_version=run.code_version,
    )
    try:
        if outside.is_outside():
            learned = learning.learn(job, ledger, outside.learner(job))
        else:
            home = Path(settings.DATA_DIR) / "jobs"
            learned = launch.learn(job, ledger, home=home, processes=launch.processes())
    except OutOfMemory as failure:
        raise OutOfMemory(
            "There is not enough memory to learn from one sample at a time: lower the recipe's max_tokens or its "
            "demonstrations, or give the learner a device with more."
        ) from failure
    except Exception as failure:
        if not is_full(failure):
            raise
        needed, free = forecast.room(recipe)
        raise DiskFull(f"The disk was full before the new weights were saved. {say_room(needed, free)}") from failure
    made = Made(number, name, path, checksums.of(job.folder), base_model.base())
    run.usage = meter.rows
    return patiently(partial(_finish, run, parent, recipe, made, learned, lesson.compared))


def _samples(run: Run, parent: Checkpoint, recipe: Recipe) -> list[Sample]:
    """What a run learns from. Raises NothingLearned where it has nothing, NothingReady where nothing is left of it."""
    if run.again_id is not None:  # they were young enough once, and stay those of the run that is repeated
        samples = list(batches.left(run, recipe).select_related("checkpoint", "episode"))
        run.learned = [sample.pk for sample in samples]
        if not samples:
            raise NothingLearned(f"Nothing is left of what {run.again} learned.")
        return samples
    claimed = run.samples.filter(status=Sample.Status.CLAIMED).order_by("pk")
    samples = list(claimed.select_related("checkpoint", "episode"))
    if not samples:
        raise NothingLearned(f"{run} has claimed no sample.")
    return batches.fresh(samples, parent, recipe)


@transaction.atomic
def _finish(
    run: Run, parent: Checkpoint, recipe: Recipe, made: Made, learned: Learned, compared: Comparison
) -> Checkpoint:
    """The moment a run counts: candidate, run and samples in one transaction."""
    mine = Run.objects.select_for_update().filter(pk=run.pk, status=Run.Status.RUNNING, attempts=run.attempts).first()
    if mine is None:
        raise Lost(f"{run} was given to another worker after a silence.")
    run.status, run.moved_at = mine.status, mine.moved_at  # a try before this one may have been rolled back
    checkpoint = Checkpoint.objects.create(
        number=made.number,
        line_id=run.line_id,
        kind=recipe.weights,
        parent=parent,
        adapter=made.name if recipe.weights == "lora" else FULL + made.name,
        path=str(made.path),
        probe=learned.probe,
        files=made.files,
    )
    for sample in run.samples.filter(status=Sample.Status.CLAIMED):
        sample.move(Sample.Status.TRAINED, **compared.told_of(sample.pk))
    comparison.settle(run)
    run.move(
        Run.Status.FINISHED,
        checkpoint=checkpoint,
        finished_at=timezone.now(),
        metrics=run.metrics,
        usage=run.usage,
        agents=compared.figures | {"alarms": alarms.raised(run, compared.figures)} if compared.figures else {},
        learned=run.learned,
        progress={"phase": "finished", "done": 1, "total": 1, "share": 1.0, "eta_s": 0.0, "peak_mib": learned.peak_mib},
    )
    checkpoint.made = receipts.made(checkpoint, made.base)
    checkpoint.save(update_fields=["made"])
    alarms.tell(run, checkpoint)
    taints.look([checkpoint.pk])  # of what it learned, or came from, something may have been taken back meanwhile
    return checkpoint


def _sentence(failure: Exception) -> str:
    """What a person is told of a failure that has no name."""
    if isinstance(failure, OSError) and failure.strerror:
        return f"{failure.strerror}: {Path(str(failure.filename)).name if failure.filename else 'no file'}."
    if isinstance(failure, OperationalError | InterfaceError):
        return f"The database did not answer for {patience.DATABASE_PATIENCE_S} s: {failure}"
    if isinstance(failure, MemoryError) or "out of memory" in str(failure).lower():
        return gettext_noop("The learner ran out of memory: lower micro_batch or batch_size in the recipe.")
    return f"{type(failure).__name__}: {failure}"
