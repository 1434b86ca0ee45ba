"""A dry run: what a run would take before it is started. From the samples' lengths and from how earlier runs went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db.models import Case, F, Q, When
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from checkpoints.models import SHARED, Checkpoint
from core import stores
from training import batches, config, demonstrations, rehearsals, replay
from training.agents import comparison
from training.config import Recipe
from training.models import Run, Sample
from training.next_run import next_lessons
from training.objective import merged_rows, question_bank

THERE_AND_BACK = 3
"""What an update on a token costs in reads of it: once forward, and backward about twice that."""

BESIDE = 2**20
"""Bytes of a checkpoint beside its numbers: headers with each tensor's name, configuration, a tokenizer's few lines."""

MOST_LOOKED_AT = 64
"""Lessons whose lengths are looked at to estimate a full batch."""

PEAKS = 20
"""How many earlier runs are looked at for one that held as much memory as this would."""

OF_MEMORY = ("weights", "base_bits", "micro_batch", "max_tokens", "lora_rank")
"""Knobs that say how much memory a run takes."""

RUNS = 3
"""How many earlier runs are asked how long such work takes here; the newest, since machines and models change."""

MIB = 2**20


class Lengths(NamedTuple):
    """A sample in tokens. `hinted`: the prompt that the teacher reads; `rewrite`: what a person wrote instead; 0 where
    there is none. `steps`: how many replies an attempt has in its response; the rest of its rows is prompt."""

    prompt: int
    response: int
    hinted: int = 0
    rewrite: int = 0
    steps: int = 1


@dataclass(frozen=True)
class Forecast:
    """What a run on these samples would take. None: nothing is known of it here yet."""

    samples: int
    updates: int
    prompt_tokens: int
    response_tokens: int
    """Of the replies, as far as the recipe learns from them."""
    reads: int
    """Tokens that some model reads, in all: the frozen ones once, the policy there and back at each update."""
    minutes: float | None
    memory_mib: float | None
    """The peak of the newest run with the same knobs of memory."""
    disk_mib: float
    free_mib: float
    measured_on: int
    """How many earlier runs the minutes come from."""

    @property
    def fits_disk(self) -> bool:
        return self.disk_mib < self.free_mib

    @property
    def sentence(self) -> str:
        """All of it, in words."""
        parts = [
            _("%(lessons)s, %(updates)s, %(replies)s tokens of replies after %(prompts)s of prompts.") % {
                "lessons": ngettext("%(n)s lesson", "%(n)s lessons", self.samples) % {"n": self.samples},
                "updates": ngettext("%(n)s update", "%(n)s updates", self.updates) % {"n": self.updates},
                "replies": self.response_tokens,
                "prompts": self.prompt_tokens,
            },
            self._time,
        ]  # fmt: skip
        if self.memory_mib is not None:
            memory = _("Memory %(gib)s GiB, as the last run's peak.")
            parts.append(memory % {"gib": f"{self.memory_mib / 1024:.1f}"})
        disk = _("Disk %(mib)s MiB of %(gib)s GiB that it may take.")
        parts.append(disk % {"mib": f"{self.disk_mib:.0f}", "gib": f"{self.free_mib / 1024:.0f}"})
        if not self.fits_disk:
            parts.append(_("That is not enough: make room first."))
        return " ".join(parts)

    @property
    def _time(self) -> str:
        if self.minutes is None:
            return _("How long it takes here shows with the first run.")
        if self.minutes < 1:
            return _("Less than a minute, as earlier runs went.")
        return _("About %(n)s min, as earlier runs went.") % {"n": f"{self.minutes:.0f}"}


def of_ready(recipe: Recipe, line: str = SHARED) -> Forecast:
    """What "learn now" would start in this line. Raises NothingReady when that is nothing."""
    now, _by_itself = next_lessons.claimed(recipe, *batches.filled_with({line: recipe})[line], line)
    return of_samples(recipe, now, line)


def of_samples(
    recipe: Recipe, samples: Sequence[Sample], line: str = SHARED, *, live: Checkpoint | None = None
) -> Forecast:
    """What a run on these would take in this line, whose `live` checkpoint may be known. Raises NothingReady where
    there are none."""
    waiting = lengths(samples)
    if not waiting:
        raise batches.NothingReady(_("There is no lesson yet, so there is nothing to estimate."))
    return forecast(recipe, waiting, line, live=live)


def of_full_batch(recipe: Recipe, line: str = SHARED) -> Forecast:
    """What a run on a full batch would take in this line, of lessons as long as those that wait, else as those of its
    last run: by it two recipes are compared. Raises NothingReady where there are neither."""
    waiting = lengths(batches.ready(recipe, line)[:MOST_LOOKED_AT])
    if not waiting:
        last = Run.objects.filter(line=line, status=Run.Status.FINISHED).order_by("-pk").first()
        waiting = [one for one in lengths(batches.learned(last)[:MOST_LOOKED_AT]) if one.response] if last else []
    if not waiting:
        raise batches.NothingReady(_("There is no lesson yet, so there is nothing to estimate."))
    return forecast(recipe, [waiting[place % len(waiting)] for place in range(recipe.batch_size)], line)


def forecast(
    recipe: Recipe, samples: Sequence[Lengths], line: str = SHARED, *, live: Checkpoint | None = None
) -> Forecast:
    """What a run of `recipe` on samples of these lengths would take here."""
    live = live or Checkpoint.live(line)
    is_fresh = live.kind == Checkpoint.Kind.BASE
    again = lengths(replay.drawn(live, recipe, seed=0))  # which ones a run draws is seen when it begins
    beside = rehearsed(rehearsals.count(recipe, len(samples), sum(one.rewrite > 0 for one in samples), len(again)))
    asked = question_bank.tokens(recipe)
    work = reads([*samples, *beside], recipe, is_fresh=is_fresh, replayed=again, asked=asked)
    finished = _finished(recipe)
    earlier = [run for run in _earlier(recipe, finished) if run.seconds and run.reads]
    spent_s = sum(run.seconds for run in earlier)
    done = sum(run.reads for run in earlier)
    needed, free = room(recipe)
    return Forecast(
        samples=len(samples),
        updates=recipe.updates,
        prompt_tokens=sum(one.prompt for one in samples),
        response_tokens=sum(learned(one, recipe) for one in samples),
        reads=work,
        minutes=work / done * spent_s / 60 if done else None,
        memory_mib=_peak_mib(recipe, finished),
        disk_mib=needed / MIB,
        free_mib=free / MIB,
        measured_on=len(earlier),
    )


def lengths(samples: Iterable[Sample]) -> list[Lengths]:
    """Of replies, and of agents' attempts, whose steps share a row where their prompts go on from one another."""
    samples = list(samples)
    replies = [
        Lengths(
            len(sample.prompt_ids),
            len(sample.response_ids),
            len(sample.teacher_prompt_ids or ()),
            len(sample.rewrite_ids or ()),
        )
        for sample in samples
        if sample.step is None
    ]
    return [*replies, *(_of_attempt(list(steps.values())) for steps in comparison.by_attempt(samples).values())]


def _of_attempt(steps: Sequence[Sample]) -> Lengths:
    rows, _apart = merged_rows.chains([comparison.step_of(one, None) for one in steps])
    said = sum(len(one.response_ids) for one in steps)
    return Lengths(
        sum(len(row[-1].prompt_ids) + len(row[-1].response_ids) for row in rows) - said, said, steps=len(steps)
    )


def rehearsed(rows: int) -> list[Lengths]:
    """So many rehearsals, as far as the pool holds them: which ones a run draws is seen when it begins, and the first
    are about as long as any."""
    pool = rehearsals.pool()[:rows]
    return [Lengths(len(row.prompt_ids), min(rehearsals.TOKENS, len(row.response_ids))) for row in pool]


def learned(sample: Lengths, recipe: Recipe) -> int:
    """Tokens of the reply that the recipe learns from.

    >>> learned(Lengths(10, 300), Recipe(max_tokens=128)), learned(Lengths(10, 300), Recipe())
    (128, 300)
    """
    return _bounded(sample.response, recipe.max_tokens and recipe.max_tokens * sample.steps)


def _bounded(tokens: int, most: int | None) -> int:
    return tokens if most is None else min(tokens, most)


def reads(
    samples: Iterable[Lengths],
    recipe: Recipe,
    *,
    is_fresh: bool,
    replayed: Sequence[Lengths] = (),
    asked: int = 0,
) -> int:
    """Tokens read in a run: each sample once by the base, once by the policy it starts from (which is the base, when
    `is_fresh`), once under the hint with the demonstrations before it, and there and back at each update, with what a
    person wrote instead, now or of what is `replayed`. The `asked` tokens of closed questions an update reads once to
    see how likely they are, and there and back.

    >>> reads([Lengths(60, 40, 80)], Recipe(updates=2), is_fresh=True)  # 100 + 120 + 3 * 2 * 100
    820
    """
    samples = list(samples)
    total = recipe.updates * (1 + THERE_AND_BACK) * asked
    written = [one for one in samples if one.rewrite and recipe.w_sft]
    again = [one for one in replayed if one.rewrite and recipe.w_sft]
    for sample in [*written, *again]:
        instead = sample.prompt + _bounded(sample.rewrite, recipe.written_tokens)
        total += THERE_AND_BACK * recipe.updates * instead
    for at, sample in enumerate(samples):
        reply = learned(sample, recipe)
        whole = sample.prompt + reply
        hinted = sample.hinted + _shown(at, samples, again, recipe) + reply if sample.hinted and recipe.w_opd else 0
        total += whole * (1 if is_fresh else 2) + hinted + THERE_AND_BACK * recipe.updates * whole
    return total


def _shown(at: int, samples: Sequence[Lengths], again: Sequence[Lengths], recipe: Recipe) -> int:
    """Tokens of the demonstrations before a teacher's prompt, were all samples one person's."""
    others = [(one.prompt, one.rewrite) for one in (*samples[:at], *samples[at + 1 :], *again) if one.rewrite]
    room = demonstrations.MOST_TOKENS - samples[at].hinted - learned(samples[at], recipe)
    return sum(sum(others[one]) for one in demonstrations.fitting(others, recipe.shows, room))


def checkpoint_bytes(recipe: Recipe, model: Path) -> int:
    """What a checkpoint takes on disk: float32 adapters, or the weights as they are, and both of Adam's moments."""
    found = shapes(model)
    if recipe.weights == "full":
        return BESIDE + sum(prod(shape) * (width + 8) for shape, width in found.values())
    layers = [shape for name, (shape, _) in found.items() if name.endswith("_proj.weight") and len(shape) == 2]
    return BESIDE + sum(recipe.lora_rank * sum(shape) * 4 * 3 for shape in layers)


def room(recipe: Recipe) -> tuple[int, int]:
    """Bytes that a checkpoint of this recipe needs where checkpoints are kept, and bytes that it may take there."""
    return checkpoint_bytes(recipe, Path(settings.MODEL)), max(0, stores.learning_room())


def shapes(model: Path) -> dict[str, tuple[list[int], int]]:
    """Each weight's shape and the bytes of one of its numbers, from the headers of the safetensors files."""
    widths = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1}
    found = {}
    for file in sorted(model.glob("*.safetensors")):
        with file.open("rb") as opened:
            header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
        for name, entry in header.items():
            if name != "__metadata__":
                found[name] = entry["shape"], widths.get(entry["dtype"], 4)
    return found


def _finished(recipe: Recipe) -> list[Run]:
    """The newest finished runs, and of those that trained the same kind of weights the newest, the newest first. A
    run's metrics are long: these last bring the first row of them, as `told`, and the others none."""
    rows = Run.objects.filter(status=Run.Status.FINISHED).order_by("-pk").values("pk")
    of_kind = rows.filter(recipe__weights=recipe.weights)
    same = Q(pk__in=of_kind[:RUNS])
    newest = Run.objects.filter(Q(pk__in=rows[:PEAKS]) | same).annotate(told=Case(When(same, then=F("metrics__0"))))
    return list(newest.select_related("parent").defer(*HEAVY).order_by("-pk"))


HEAVY = ("metrics", "usage", "agents", "parent__probe", "parent__made")


def _peak_mib(recipe: Recipe, finished: Sequence[Run]) -> float | None:
    """What the newest finished run with the same knobs of memory held at most; None without one."""
    for run in finished[:PEAKS]:
        earlier = config.stored(run.recipe)
        if all(getattr(earlier, knob) == getattr(recipe, knob) for knob in OF_MEMORY) and run.progress.get("peak_mib"):
            return float(run.progress["peak_mib"])
    return None


class _Earlier(NamedTuple):
    seconds: float
    reads: int


def _earlier(recipe: Recipe, finished: Sequence[Run]) -> list[_Earlier]:
    """How long the newest of these took that trained the same kind of weights."""
    newest = [run for run in finished if run.recipe.get("weights") == recipe.weights][:RUNS]
    found = []
    learned_by = batches.learned_by(newest)
    for run in newest:
        seconds = (run.finished_at - run.started_at).total_seconds() if run.finished_at and run.started_at else 0.0
        found.append(_Earlier(seconds, _read(run, learned_by[run.pk])))
    return found


def _read(run: Run, learned: Sequence[Sample]) -> int:
    """Tokens that a finished run read; 0 where that cannot be told any more, since what it learned from was deleted or
    taken back: such a run says nothing of the time that work takes."""
    if run.parent is None:
        return 0
    recipe, told = config.stored(run.recipe), run.told or {}  # type: ignore[attr-defined]  # as `_finished` has it
    taught, number = lengths(learned), told.get("replies_replayed", 0)
    again = lengths(replay.drawn(run.parent, recipe, run.seed)[:number]) if number else []
    if not taught or any(not one.response for one in taught) or len(again) < number:
        return 0
    beside = rehearsed(told.get("replies_rehearsed", 0))
    is_fresh = run.parent.kind == Checkpoint.Kind.BASE
    asked = question_bank.tokens(recipe)
    return reads([*taught, *beside], recipe, is_fresh=is_fresh, replayed=again, asked=asked)
