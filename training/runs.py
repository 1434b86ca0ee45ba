"""One run: from claimed samples to a candidate. Torch is imported inside, by the process that learns.

The rows say what is due at any moment, so a run may be killed at any line. Weights are written whole, by a rename,
before the one transaction that makes the candidate, finishes the run and marks its samples trained. Until that
transaction nothing has happened; after it nothing is left to do.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from core.errors import IllegalMove, TalkbackError
from gpu_workers.errors import NothingLearned
from training import batches
from training.config import Recipe
from training.models import Checkpoint, Run, Sample

if TYPE_CHECKING:
    from gpu_workers.learner import Learner, View

log = logging.getLogger(__name__)

SILENCE_S = 120
"""A running run that has not been heard of for this long has lost its worker, where only the row can tell."""

HUNG_S = 900
"""The same for a worker that is alive on this machine: slow is not dead, but this is not slow any more."""

ATTEMPTS = 3
"""How many workers may die on one run before it fails."""

BEAT_S = 1.0
"""How often progress is written, at most."""

PROBE_TOKENS = 64
"""Length of the reply that proves a swap."""

SAME = 1e-6
"""Nats a token under which a teacher says what the student says."""


class Cancelled(TalkbackError):
    """A person stopped the run."""

    code, status = "cancelled", 409


class Lost(TalkbackError):
    """The run was given to another worker while this one was silent; nothing of this one's work counts."""

    code, status = "run_lost", 409


@dataclass(frozen=True)
class Gap:
    """How far engine and learner are apart on equal weights, in nats a token."""

    mean: float
    p99: float

    @classmethod
    def between(cls, learner: Sequence[float], engine: Sequence[float]) -> Gap:
        """Lengths that disagree, or nothing at all, raise ValueError.

        >>> Gap.between([-1.0, -2.0], [-1.5, -2.0])
        Gap(mean=0.25, p99=0.5)
        """
        gaps = sorted(abs(a - b) for a, b in zip(learner, engine, strict=True))
        if not gaps:
            raise ValueError("no token to compare")
        return cls(sum(gaps) / len(gaps), gaps[min(len(gaps) - 1, math.ceil(0.99 * len(gaps)) - 1)])


class Ledger:
    """What a worker writes of its run while it works, and how it hears that it should stop."""

    def __init__(self, run: Run, work: int) -> None:
        """`work` is the whole in units that take about equally long."""
        self.run, self.work, self.done = run, work, 0
        self.began = time.monotonic()
        self.written = -math.inf

    def beat(self, phase: str, done: int, total: int, *, work: int = 0, force: bool = False) -> None:
        """Say where the run is. Raises Lost when it is no longer this worker's, Cancelled when a person says stop."""
        self.done += work
        now = time.monotonic()
        if not force and now - self.written < BEAT_S:
            return
        self.written = now
        left = self.work - self.done
        eta_s = (now - self.began) / self.done * left if self.done else None
        progress = {
            "phase": phase,
            "done": done,
            "total": total,
            "eta_s": None if eta_s is None else round(eta_s, 1),
        }
        mine = Run.objects.filter(pk=self.run.pk, status=Run.Status.RUNNING, attempts=self.run.attempts)
        if not mine.update(progress=progress, metrics=self.run.metrics, heartbeat_at=timezone.now()):
            raise Lost(f"{self.run} was given to another worker after a silence.")
        if mine.filter(cancel_asked=True).exists():
            raise Cancelled("Stopped by a person before it had changed anything.")


def train(run: Run) -> Checkpoint | None:
    """Bring a queued run to its candidate; None when it is not due, another one runs, or it failed.

    Safe to call twice and from two workers. A failure with a name fails the run with its sentence and gives its
    samples back; any other failure does the same with the error's own words, and is raised. The next queued run
    is announced in the end.
    """
    with _hold(run) as held:
        return _train(run) if held and _begin(run) else None


def _train(run: Run) -> Checkpoint | None:
    try:
        return _learn(run)
    except Lost as failure:
        log.warning("%s", failure)
        return None
    except TalkbackError as failure:
        log.warning("%s failed: %s", run, failure)
        _give_up(run, str(failure))
        return None
    except Exception as failure:
        _give_up(run, _sentence(failure))
        raise
    finally:
        following = Run.objects.filter(status=Run.Status.QUEUED).order_by("pk").first()
        if following is not None:
            following.announce()


@transaction.atomic
def cancel(run: Run) -> None:
    """Stop a run: at once when it is queued, at its next sample when it is running. IllegalMove when it is over."""
    run = Run.objects.select_for_update().get(pk=run.pk)
    if run.status == Run.Status.QUEUED:
        fail(run, "Stopped by a person before it began.")
    elif not Run.objects.filter(pk=run.pk, status=Run.Status.RUNNING).update(cancel_asked=True):
        raise IllegalMove(f"{run} is {run.status}: there is nothing to stop.")


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


def recover() -> list[Run]:
    """Take back runs whose worker is gone: queue them again, or fail them when workers keep dying. Returns them."""
    taken = []
    for run in Run.objects.filter(status=Run.Status.RUNNING):
        if not _is_abandoned(run):
            continue
        try:
            if run.attempts >= ATTEMPTS:
                fail(run, f"{run.attempts} workers died on it, the last one silently; see the learn worker's log.")
            else:
                log.warning("%s lost its worker: it is queued again", run)
                run.move(Run.Status.QUEUED, progress={})
        except IllegalMove:  # it finished, or another sweep was quicker
            continue
        taken.append(run)
    return taken


def _is_abandoned(run: Run) -> bool:
    silence_s = (timezone.now() - (run.heartbeat_at or run.moved_at)).total_seconds()
    if not _lock(run).exists():  # its worker is on another machine
        return silence_s > SILENCE_S
    with _hold(run, only_try=True) as was_free:
        return was_free or silence_s > HUNG_S


def _lock(run: Run) -> Path:
    return Path(settings.DATA_DIR) / "runs" / f"{run.pk}.lock"


@contextmanager
def _hold(run: Run, *, only_try: bool = False) -> Iterator[bool]:
    """Hold the run's lock file for as long as this process lives; False when somebody else does.

    The kernel lets go of it the moment a process dies, kill -9 included, so the next sweep knows at once.
    """
    path = _lock(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
        if not only_try:
            path.unlink(missing_ok=True)


def _begin(run: Run) -> bool:
    """Make the run this worker's. At most one run is running, and it goes on from what is live now."""
    with transaction.atomic():
        live = Checkpoint.objects.select_for_update().get(status=Checkpoint.Status.LIVE)  # one worker at a time
        if Run.objects.filter(status=Run.Status.RUNNING).exists():
            return False
        now = timezone.now()
        try:
            run.refresh_from_db()
            run.move(
                Run.Status.RUNNING,
                parent=live,
                attempts=run.attempts + 1,
                heartbeat_at=now,
                started_at=now,
                progress={"phase": "loading", "done": 0, "total": 1, "eta_s": None},
                metrics=[],
                error="",
            )
        except (IllegalMove, Run.DoesNotExist):
            return False
    return True


def _learn(run: Run) -> Checkpoint:
    recipe = Recipe.model_validate(run.recipe)
    samples = list(run.samples.filter(status=Sample.Status.CLAIMED).order_by("pk"))
    if not samples:
        raise NothingLearned(f"{run} has claimed no sample.")
    parent = run.parent
    assert parent is not None
    # Looking at a sample is one unit of work, an update on it about three: there and back again.
    ledger = Ledger(run, len(samples) * (1 + 3 * recipe.updates))
    ledger.beat("loading", 0, 1, force=True)
    clear_orphans()
    learner = _learner(run, parent, recipe)
    views = _look(learner, samples, recipe, ledger)
    gap = _gap(views, samples, parent)
    if gap is not None and gap.mean > recipe.max_gap:
        raise NothingLearned(
            f"Engine and learner are {gap.mean:.2f} nats a token apart on the same weights (at most "
            f"{recipe.max_gap:g}): one of them does not run what it says, so nothing was learned."
        )
    _update(learner, views, run, recipe, ledger, gap)
    ledger.beat("saving", 0, 1, force=True)
    probe = _probe(learner, views)
    number = (Checkpoint.objects.aggregate(Max("number"))["number__max"] or 0) + 1
    name = f"{settings.MODEL_NAME}-{number}-{uuid.uuid4().hex[:8]}".replace("/", "-")
    path = Path("checkpoints") / name
    learner.save(Path(settings.DATA_DIR) / path)
    ledger.beat("saving", 1, 1, force=True)
    return _finish(run, parent, recipe, number, name, path, probe)


def _learner(run: Run, parent: Checkpoint, recipe: Recipe) -> Learner:
    """The live checkpoint with its optimiser; on the base, a fresh adapter."""
    import torch

    from gpu_workers.learner import Learner, LoraShape

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # two threads on a core that the engine also uses are many times slower than one
    is_lora = recipe.weights == "lora"
    if parent.kind not in (Checkpoint.Kind.BASE, recipe.weights):
        raise NothingLearned(f"{parent} holds {parent.kind} weights: a {recipe.weights} run cannot go on from it.")
    return Learner(
        settings.MODEL,
        adapter_dir=parent.folder,
        lora=LoraShape(recipe.lora_rank, recipe.lora_alpha) if is_lora else None,
        device="cuda" if torch.cuda.is_available() else "cpu",
        seed=run.seed,
        micro_batch=recipe.micro_batch,
    )


def _look(learner: Learner, samples: list[Sample], recipe: Recipe, ledger: Ledger) -> list[View]:
    """Have the frozen models read every sample. Raises NothingLearned where that shows no signal at all."""
    examples = batches.collate(samples, max_tokens=recipe.max_tokens)
    if not recipe.w_rl:
        examples = [replace(example, reward=0.0) for example in examples]
    if not recipe.w_opd:
        examples = [replace(example, teacher_prompt_ids=None) for example in examples]
    views = []
    for done, example in enumerate(examples):
        ledger.beat("teacher", done, len(examples))
        views.append(learner.view(example, teacher=recipe.teacher))
        ledger.beat("teacher", done + 1, len(examples), work=1)
    rewarded = any(view.example.reward for view in views)
    taught = [view for view in views if view.teacher_logprobs is not None]
    if not rewarded and not taught:
        raise NothingLearned("Every advantage is zero: no sample has a reward or a teacher under this recipe.")
    if not rewarded and all(view.teacher_distance < SAME for view in taught):
        raise NothingLearned("The teacher says exactly what the student says everywhere: the hints change nothing.")
    if any(not math.isfinite(view.teacher_distance) for view in taught):
        raise NothingLearned("A teacher's log-prob is not a number: nothing was learned.")
    return views


def _gap(views: list[View], samples: list[Sample], parent: Checkpoint) -> Gap | None:
    """Recomputed against recorded log-probs, on the samples that the run's own starting weights served."""
    learner: list[float] = []
    engine: list[float] = []
    for view, sample in zip(views, samples, strict=True):
        if sample.checkpoint_id == parent.pk:
            learner += view.start_logprobs.tolist()
            engine += view.example.old_logprobs
    return Gap.between(learner, engine) if learner else None


def _update(learner: Learner, views: list[View], run: Run, recipe: Recipe, ledger: Ledger, gap: Gap | None) -> None:
    from training.objective import updates

    total = recipe.updates * len(views)
    ledger.beat("learning", 0, total, force=True)

    def seen(done: int) -> None:
        ledger.beat("learning", done, total, work=3 * min(recipe.micro_batch, len(views)))

    for figures in updates(learner, views, recipe, progress=seen):
        if gap is not None:
            figures |= {f"gap_{name}": value for name, value in asdict(gap).items()}
        run.metrics = [*run.metrics, {name: _shown(value) for name, value in figures.items()}]
        ledger.beat("learning", len(run.metrics) * len(views), total, force=True)


def _probe(learner: Learner, views: list[View]) -> dict[str, Any]:
    """What the new weights give a fixed reply, for whoever must prove that they are really being served.

    Of the replies that were learned from, it is the one whose log-probs changed most from the base's: where the
    change is plain, so is its absence. Raises NothingLearned when no reply changed at all.
    """
    best: tuple[float, dict[str, Any]] = (0.0, {})
    for view in views[:4]:
        prompt, response = list(view.example.prompt_ids), list(view.example.response_ids)[:PROBE_TOKENS]
        logprobs = learner.score(prompt, response)
        base = learner.score(prompt, response, adapter=False)
        change = sum(abs(a - b) for a, b in zip(logprobs, base, strict=True)) / len(base)
        if not math.isfinite(change):
            raise NothingLearned("The new weights give log-probs that are not numbers: they were thrown away.")
        if change > best[0]:
            best = (
                change,
                {
                    "prompt_ids": prompt,
                    "response_ids": response,
                    "logprobs": logprobs,
                    "base_logprobs": base,
                    "dtype": str(learner.dtype).removeprefix("torch."),
                },
            )
    if best[0] < SAME:
        raise NothingLearned("The new weights answer exactly as the base does: the update had no effect.")
    return best[1]


@transaction.atomic
def _finish(
    run: Run, parent: Checkpoint, recipe: Recipe, number: int, name: str, path: Path, probe: dict[str, Any]
) -> Checkpoint:
    """The moment a run counts: candidate, run and samples in one transaction."""
    mine = Run.objects.select_for_update().filter(pk=run.pk, status=Run.Status.RUNNING, attempts=run.attempts)
    if mine.first() is None:
        raise Lost(f"{run} was given to another worker after a silence.")
    checkpoint = Checkpoint.objects.create(
        number=number,
        kind=recipe.weights,
        parent=parent,
        run=run,
        adapter=name if recipe.weights == "lora" else "",
        path=str(path),
        probe=probe,
    )
    for sample in run.samples.filter(status=Sample.Status.CLAIMED):
        sample.move(Sample.Status.TRAINED)
    run.move(Run.Status.FINISHED, finished_at=timezone.now(), metrics=run.metrics)
    return checkpoint


def clear_orphans() -> list[str]:
    """Remove folders of weights that no checkpoint names: a worker died between writing and committing them."""
    folder = Path(settings.DATA_DIR) / "checkpoints"
    if not folder.is_dir():
        return []
    kept = {Path(path).name for path in Checkpoint.objects.exclude(path="").values_list("path", flat=True)}
    orphans = [entry for entry in folder.iterdir() if entry.name not in kept]
    for entry in orphans:
        shutil.rmtree(entry, ignore_errors=True)
    return [entry.name for entry in orphans]


def _shown(value: float) -> float | None:
    """JSON knows no infinity."""
    return round(value, 6) if math.isfinite(value) else None


def _sentence(failure: Exception) -> str:
    """What a person is told of a failure that has no name."""
    if isinstance(failure, OSError) and failure.strerror:
        return f"{failure.strerror}: {Path(str(failure.filename)).name if failure.filename else 'no file'}."
    if isinstance(failure, MemoryError) or "out of memory" in str(failure).lower():
        return "The learner ran out of memory: lower micro_batch or batch_size in the recipe."
    return f"{type(failure).__name__}: {failure}"
