"""What a run does with weights: look, update, prove, save.

It knows tokens and files and no row, so that it is the very same in the worker itself and in the processes that
torchrun starts for it (`training/launch.py`). Torch is imported inside, by the process that learns.
"""

from __future__ import annotations

import logging
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.marked import gettext_noop
from core.stops import Stopped
from gpu_workers.errors import NothingLearned
from gpu_workers.types import Example
from training import snapshots
from training.jobs import Job, Learned, Listener
from training.objective import out_of_memory

if TYPE_CHECKING:
    from gpu_workers.learner.learner import Learner
    from gpu_workers.learner.scores import ScoredExample

log = logging.getLogger(__name__)

PROBE_TOKENS = 64
"""Length of the reply that proves a swap."""

NOT_MEASURED = gettext_noop("not measured: no sample was served by the weights it starts from")
"""What a run says of the gap between engine and learner where there is none to say."""

ALPHA = 2
"""An adapter's alpha over its rank, and so its scale. The reference's: 32 over 16."""

SAME = 1e-6
"""Nats a token under which a teacher says what the student says."""


@dataclass(frozen=True)
class Gap:
    """How far engine and learner are apart on equal weights, in nats per token."""

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


def learn(job: Job, ledger: Listener, learner: Learner | None = None) -> Learned:
    """Do all of a job, with a learner of this machine's where none is given. Raises NothingLearned, with its sentence,
    where it would teach nothing."""
    if job.gives_way_to:
        from training.courtesy import Courteous

        ledger = Courteous(ledger, job.gives_way_to)
    learner = learner or _learner(job)
    samples = score_with_frozen_models(learner, job, ledger)
    gap = _gap(samples, job)
    if gap is not None and math.isnan(gap.mean):
        raise NothingLearned(
            "The log-probs of engine and learner on the same weights cannot be compared, since one is not a number: "
            "nothing was learned."
        )
    if gap is not None and gap.mean > job.recipe.max_gap:
        raise NothingLearned(
            f"Engine and learner are {gap.mean:.2f} nats per token apart on the same weights (at most "
            f"{job.recipe.max_gap:g}): one of them does not run what it says, so nothing was learned."
        )
    _update(learner, samples, job, ledger, gap)
    ledger.beat("saving", 0, 1, force=True)
    probe = _probe(learner, samples)
    learner.save(job.folder)
    ledger.beat("saving", 1, 1, force=True)
    return Learned(probe, _peak_mib())


def _learner(job: Job) -> Learner:
    """The starting weights with their optimiser; on the base, a fresh adapter."""
    import torch

    from gpu_workers.learner.learner import Learner
    from gpu_workers.learner.policy import LoraShape

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)  # two threads on a core that the engine also uses are many times slower than one
    recipe = job.recipe
    shared: dict[str, Any] = {}
    kind: type[Learner] = Learner
    if _is_shared():
        from gpu_workers.learner.distributed import SharedLearner

        kind, shared = SharedLearner, {"is_sharded": job.is_sharded}
    return kind(
        job.model,
        adapter_dir=job.start,
        lora=LoraShape(recipe.lora_rank, ALPHA * recipe.lora_rank) if recipe.weights == "lora" else None,
        dtype=job.dtype,
        device="cuda" if torch.cuda.is_available() else "cpu",
        seed=job.seed,
        micro_batch=recipe.micro_batch,
        base_bits=recipe.base_bits,
        **shared,
    )


def score_with_frozen_models(learner: Learner, job: Job, ledger: Listener) -> list[ScoredExample]:
    """Have the frozen models read every sample. Raises NothingLearned where that shows no signal at all."""
    recipe, examples = job.recipe, list(job.examples)
    if not recipe.w_rl:
        examples = [replace(example, reward=0.0, rewards=()) for example in examples]
    if not recipe.w_opd:
        examples = [replace(example, teacher_prompt_ids=None) for example in examples]
    if not recipe.w_sft:
        examples = [replace(example, rewrite=None, decided=()) for example in examples]
    samples: list[ScoredExample] = []
    ledger.beat("teacher", 0, len(examples))
    look = partial(learner.score_examples, teacher=recipe.teacher, with_distribution=recipe.distillation != "token")
    for seen in _each(learner, look, examples):
        samples += seen
        ledger.beat("teacher", len(samples), len(examples), work=len(seen))
    rewarded = any(sample.example.has_reward for sample in samples)
    taught = [sample for sample in samples if sample.teacher_logprobs is not None]
    rewritten = any(sample.example.rewrite is not None for sample in samples)
    if not rewarded and not taught and not rewritten:
        raise NothingLearned(
            "Every advantage is zero: no sample has a reward, a teacher or a rewrite under this recipe."
        )
    if not rewritten and not any(
        any(sample.example.mask or [1.0]) for sample in samples if sample.example.kind == "turn"
    ):
        raise NothingLearned(
            gettext_noop("The gradient is zero everywhere: these samples have no token to learn from.")
        )
    if taught and all(sample.teacher_distance < SAME for sample in taught):
        raise NothingLearned(
            gettext_noop("The teacher says exactly what the student says everywhere: the hints change nothing.")
        )
    if any(not math.isfinite(sample.teacher_distance) for sample in taught):
        raise NothingLearned(gettext_noop("A teacher's log-prob is not a number: nothing was learned."))
    return samples


def _each(
    learner: Learner, look: Callable[[Sequence[Example]], list[ScoredExample]], examples: list[Example]
) -> Iterator[list[ScoredExample]]:
    """What `look` says of each example, a micro-batch at a time; where several processes share the learner, each looks
    at a part."""
    if not _is_shared():
        at_once = getattr(learner, "micro_batch", 1)  # Tinker has no such number
        for first in range(0, len(examples), at_once):
            yield out_of_memory.fitting(learner, partial(look, examples[first : first + at_once]))
        return
    from gpu_workers.learner.distributed import SharedLearner

    assert isinstance(learner, SharedLearner)
    yield from learner.each(look, examples)


def _is_shared() -> bool:
    import torch.distributed

    return torch.distributed.is_initialized()


def _gap(samples: list[ScoredExample], job: Job) -> Gap | None:
    """Recomputed against recorded log-probs, on the replies that the starting weights themselves served: what lies
    between the replies of an attempt was sampled by none."""
    learner: list[float] = []
    engine: list[float] = []
    for sample, is_own in zip(samples, job.is_own, strict=True):
        for first, last in sample.example.replies if is_own else ():
            learner += sample.start_logprobs[first:last].tolist()
            engine += sample.example.behaviour_logprobs[first:last]
    return Gap.between(learner, engine) if learner else None


def _update(learner: Learner, samples: list[ScoredExample], job: Job, ledger: Listener, gap: Gap | None) -> None:
    from training.objective.updates import described, updates

    recipe = job.recipe
    batch = described(samples, recipe, job.replayed) | (
        {"gap_note": NOT_MEASURED}
        if gap is None
        else {f"gap_{name}": _shown(value) for name, value in asdict(gap).items()}
    )
    total = recipe.updates * len(samples)
    found = snapshots.find(job)
    kept = list(found.figures) if found else []  # one an update that is done
    for row in kept:
        ledger.keep(row)
    if kept:
        log.info("Learning goes on after update %s of %s.", len(kept), recipe.updates)
    read = len(kept) * len(samples)  # of all updates' samples
    ledger.skip(3 * read)
    ledger.beat("learning", read, total, force=True)

    def at_once() -> int:  # fewer than the recipe says where memory ended
        return getattr(learner, "micro_batch", recipe.micro_batch)

    def seen(done: int) -> None:
        nonlocal read
        more, read = done - read, done
        fewer = "" if at_once() == recipe.micro_batch else f", {at_once()} at a time for want of memory"
        ledger.beat(f"learning{fewer}", done, total, work=3 * more)

    each = updates(
        learner,
        samples,
        recipe,
        job.replayed,
        questions=job.questions,
        progress=seen,
        done=len(kept),
        go_on=partial(learner.go_on, found.folder) if found else None,
    )
    in_snapshot, taken_at = len(kept), time.monotonic()
    try:
        for figures in each:
            told = {name: _shown(value) for name, value in figures.items()} | {"micro_batch": at_once()}
            kept.append(told | batch)
            ledger.keep(kept[-1])
            ledger.beat("learning", len(kept) * len(samples), total, force=True)
            if len(kept) < recipe.updates and time.monotonic() - taken_at >= snapshots.EVERY_S:
                snapshots.take(job, learner, kept)
                in_snapshot, taken_at = len(kept), time.monotonic()
    except Stopped:
        if len(kept) > in_snapshot:
            snapshots.take(job, learner, kept)
        raise


def _probe(learner: Learner, samples: list[ScoredExample]) -> dict[str, Any]:
    """What the new weights give a fixed reply, for the proof that they are really being served.

    Of the replies that were learned from, it is the one whose log-probs changed most from the base's: where the
    change is plain, so is its absence. Raises NothingLearned when no reply changed at all.
    """
    pairs = [
        (list(sample.example.prompt_ids), list(sample.example.response_ids)[:PROBE_TOKENS]) for sample in samples[:4]
    ]
    return probed(learner, pairs)


def probed(learner: Learner, pairs: Iterable[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """The pair of prompt and response, with log-probs by policy and base, whose log-probs the policy changed most.
    Raises NothingLearned when it changed none."""
    best: tuple[float, dict[str, Any]] = (0.0, {})
    for prompt, response in pairs:
        logprobs = learner.score(prompt, response)
        base = learner.score(prompt, response, adapter=False)
        change = sum(abs(a - b) for a, b in zip(logprobs, base, strict=True)) / len(base)
        if not math.isfinite(change):
            raise NothingLearned(
                gettext_noop("The new weights give log-probs that are not numbers: they were thrown away.")
            )
        if change > best[0]:
            best = (
                change,
                {
                    "prompt_ids": prompt,
                    "response_ids": response,
                    "logprobs": logprobs,
                    "base_logprobs": base,
                    "dtype": learner.precision,
                },
            )
    if best[0] < SAME:
        raise NothingLearned(gettext_noop("The new weights answer exactly as the base does: the update had no effect."))
    return best[1]


def _peak_mib() -> float:
    """The most memory that this run has held: the GPU's, or this process's."""
    import torch

    if torch.cuda.is_available():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB; on macOS bytes
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _shown(value: float) -> float | None:
    """JSON knows no infinity."""
    return round(value, 6) if math.isfinite(value) else None
