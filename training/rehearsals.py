"""Rehearsal: ordinary prompts with the base's own answers, a share of a run, so that a style does not cost skill."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import QuerySet

from gpu_workers.types import Example
from training.config import Recipe
from training.models import Rehearsal

TOKENS = 32
"""As much of an answer is rehearsed: how long it is and where it ends are what a person's style decides."""

OPENING = 8
"""Its first tokens are read and not learned from: whom an answer speaks to, and how it sets out, is style too, and what
follows is what the base knows."""


def count(recipe: Recipe, samples: int, written: int = 0, replayed: int = 0) -> int:
    """How many rows are `recipe.rehearsal` of a whole that holds so many samples beside them.

    Where rewrites are learned as they stand, no more than there are of these, `written` and `replayed`: it is they that
    nothing holds to what the base knows. What a hint asks for, a teacher says in the model's own words. Where no person
    wrote, those that are replayed weigh what one does, and one row is held against them.

    >>> count(Recipe(distillation="vocabulary", rehearsal=0.25), 12)  # 4 of 16
    4
    >>> count(Recipe(distillation="vocabulary", rehearsal=0.25, w_sft=1), 12, written=1)
    1
    """
    rows = round(samples * recipe.rehearsal / (1 - recipe.rehearsal))
    if not recipe.w_sft:
        return rows
    return min(rows, written + replayed if written else min(replayed, 1))


def pool() -> QuerySet[Rehearsal]:
    """What the base that is served here has answered so far."""
    return Rehearsal.objects.filter(model__in=(base(), settings.MODEL))


def base() -> str:
    """The base that is served here, by its folder: within DATA_DIR where it lies there, so that both may move."""
    model, home = Path(settings.MODEL), Path(settings.DATA_DIR)
    return model.relative_to(home).as_posix() if model.is_relative_to(home) else str(model)


def drawn(
    recipe: Recipe, samples: int, seed: int, written: int = 0, replayed: int = 0, *, until: datetime | None = None
) -> list[Example]:
    """The rows that a run of so many samples and rewrites rehearses, none twice; fewer while the pool holds no more.

    The same seed draws the same rows of the same pool; with `until`, of what it held then, so that a run which is begun
    again draws what it drew. Of each answer the first `TOKENS` are read, and no more than of
    any reply, and those after its opening are learned from; it has neither reward nor teacher, so that it is held to
    the base (`objective.TRUST`).
    """
    held = pool() if until is None else pool().filter(created_at__lte=until)
    keys = list(held.values_list("pk", flat=True))
    chosen = random.Random(seed).sample(keys, min(count(recipe, samples, written, replayed), len(keys)))
    rows = Rehearsal.objects.in_bulk(chosen)
    tokens = min(TOKENS, recipe.max_tokens or TOKENS)
    return [example(rows[key].prompt_ids, rows[key].response_ids, rows[key].logprobs, tokens) for key in chosen]


def example(prompt_ids: Sequence[int], answer_ids: Sequence[int], logprobs: Sequence[float], tokens: int) -> Example:
    """An answer of the base as runs learn it: `tokens` of it, at least the last of them."""
    length = min(len(answer_ids), tokens)
    opening = min(OPENING, length - 1)
    return Example(
        prompt_ids=prompt_ids,
        response_ids=answer_ids[:length],
        behaviour_logprobs=logprobs[:length],
        mask=[0.0] * opening + [1.0] * (length - opening),
        kind="rehearsal",
    )
