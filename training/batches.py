"""Which samples a run learns from: claimed all at once or not at all, never too old, never without a signal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from django.db import transaction
from django.db.models import Q, QuerySet

from core.errors import IllegalMove, TalkbackError
from gpu_workers.types import Example
from training.config import Recipe
from training.models import Checkpoint, Run, Sample


class NothingReady(TalkbackError):
    """There is no sample to learn from yet."""

    code, status = "nothing_ready", 409


def ready(recipe: Recipe) -> QuerySet[Sample]:
    """READY samples that would teach something under this recipe, oldest first."""
    signal = Q(pk__in=[])
    if recipe.w_rl:
        signal |= ~Q(reward=0.0)
    if recipe.w_opd:
        signal |= Q(teacher_prompt_ids__isnull=False)
    return Sample.objects.filter(signal, status=Sample.Status.READY).order_by("pk")


def fill(recipe: Recipe) -> Run | None:
    """Claim exactly `recipe.batch_size` ready samples into a new queued run; None while there are fewer.

    Samples whose run failed are left out: what failed once by itself would fail again by itself, for ever. They
    stay READY for a person's "learn now". Of two workers that fill at once, no sample goes to both.
    """
    drop_stale(recipe)
    return _claim(ready(recipe).filter(run__isnull=True), recipe, least=recipe.batch_size)


def learn_now(recipe: Recipe) -> Run:
    """Claim what is ready, at most a batch, into a new queued run. Raises NothingReady when that is nothing."""
    drop_stale(recipe)
    run = _claim(ready(recipe), recipe, least=1)
    if run is None:
        raise NothingReady(
            "No sample is ready to learn from: give a thumb or a correction to a reply, and wait until it is judged."
        )
    return run


def release(run: Run) -> None:
    """Give back what a failed run had claimed. `run` stays on the sample, as the last that tried."""
    for sample in run.samples.filter(status=Sample.Status.CLAIMED):
        sample.move(Sample.Status.READY)


def drop_stale(recipe: Recipe) -> int:
    """Put away ready samples that were served too many checkpoints ago, each with its reason. Returns how many."""
    live = Checkpoint.live()
    dropped = 0
    for served in Checkpoint.objects.filter(samples__status=Sample.Status.READY).distinct():
        age = distance(served, live)
        if age <= recipe.max_age:
            continue
        reason = (
            f"Served by {served}, {age} updates of the weights away from {live}: "
            f"at most {recipe.max_age} may lie between."
        )
        for sample in Sample.objects.filter(checkpoint=served, status=Sample.Status.READY):
            try:
                sample.move(Sample.Status.STALE, drop_reason=reason)
            except IllegalMove:  # claimed or dropped by somebody else meanwhile
                continue
            dropped += 1
    return dropped


def distance(one: Checkpoint, other: Checkpoint) -> int:
    """How many runs lie between two checkpoints, by way of the last weights they have in common."""
    ages = {pk: age for age, pk in enumerate(_line(one))}
    for age, pk in enumerate(_line(other)):
        if pk in ages:
            return age + ages[pk]
    raise ValueError(f"{one} and {other} have no common ancestor")


def collate(samples: Iterable[Sample], *, max_tokens: int | None = None) -> list[Example]:
    """Rows as the learner takes them, each reply's first `max_tokens`. Raises ValueError where lengths disagree."""
    return [
        _cut(
            Example(
                prompt_ids=sample.prompt_ids,
                response_ids=sample.response_ids,
                old_logprobs=sample.old_logprobs,
                mask=sample.mask,
                teacher_prompt_ids=sample.teacher_prompt_ids,
                reward=sample.reward,
            ),
            max_tokens,
        )
        for sample in samples
    ]


def _cut(example: Example, tokens: int | None) -> Example:
    return replace(
        example,
        response_ids=example.response_ids[:tokens],
        old_logprobs=example.old_logprobs[:tokens],
        mask=example.mask[:tokens],
    )


def _claim(samples: QuerySet[Sample], recipe: Recipe, *, least: int) -> Run | None:
    try:
        with transaction.atomic():
            # Rows that another worker is claiming are passed over, where the database can tell.
            claimed = list(samples.select_for_update(skip_locked=True)[: recipe.batch_size])
            if len(claimed) < least:
                return None
            run = Run.objects.create(recipe=recipe.model_dump(), parent=Checkpoint.live())
            run.seed = run.pk
            run.save(update_fields=["seed"])
            for sample in claimed:
                sample.move(Sample.Status.CLAIMED, run=run)
            return run
    except IllegalMove:  # somebody was quicker, and all of this is undone: the next nudge looks again
        return None


def _line(checkpoint: Checkpoint) -> list[int]:
    """Keys of a checkpoint and its ancestors, nearest first."""
    line: list[int] = []
    here: Checkpoint | None = checkpoint
    while here is not None:
        line.append(here.pk)
        here = here.parent
    return line
