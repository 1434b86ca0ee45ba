"""Rehearsal: ordinary prompts with the base's own answers, a share of a run, so that a style does not cost skill."""

from __future__ import annotations

import random

from django.conf import settings
from django.db.models import QuerySet

from gpu_workers.types import Example
from training.config import Recipe
from training.models import Rehearsal

TOKENS = 32
"""How an answer begins is rehearsed: how long it is and where it ends are what a person's style decides."""


def count(recipe: Recipe, samples: int) -> int:
    """How many rows are `recipe.rehearsal` of a whole that holds so many samples beside them.

    >>> count(Recipe(distillation="vocabulary", rehearsal=0.25), 12)  # 4 of 16
    4
    """
    return round(samples * recipe.rehearsal / (1 - recipe.rehearsal))


def pool() -> QuerySet[Rehearsal]:
    """What the base that is served here has answered so far."""
    return Rehearsal.objects.filter(model=settings.MODEL)


def drawn(recipe: Recipe, samples: int, seed: int) -> list[Example]:
    """The rows that a run of so many samples rehearses, none twice; fewer while the pool holds no more.

    The same seed draws the same rows of the same pool. Of each answer the first `TOKENS` are learned from, and no more
    than of any reply; it has neither reward nor teacher, so that it is held to the base (Recipe.trust).
    """
    keys = list(pool().values_list("pk", flat=True))
    chosen = random.Random(seed).sample(keys, min(count(recipe, samples), len(keys)))
    rows = Rehearsal.objects.in_bulk(chosen)
    return [_example(rows[key], min(TOKENS, recipe.max_tokens or TOKENS)) for key in chosen]


def _example(row: Rehearsal, tokens: int) -> Example:
    return Example(
        prompt_ids=row.prompt_ids,
        response_ids=row.response_ids[:tokens],
        old_logprobs=row.logprobs[:tokens],
        kind="rehearsal",
    )
