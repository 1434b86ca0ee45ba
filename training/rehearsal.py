"""Rehearsal: ordinary prompts with the base's own answers, a share of a run, so that a style does not cost skill."""

from __future__ import annotations

import random
from collections.abc import Sequence

from django.conf import settings
from django.db.models import QuerySet

from gpu_workers.types import Example
from training.config import Recipe
from training.models import Rehearsal

TOKENS = 32
"""As much of an answer is rehearsed: how long it is and where it ends are what a person's style decides."""

OPENING = 3
"""Its first tokens are read and not learned from: whom an answer speaks to, and how it sets out, is style too, and what
follows is what the base knows. "The capital of Portugal is Lisbon." knows it six tokens in."""


def count(recipe: Recipe, samples: int, rewrites: int = 0) -> int:
    """How many rows are `recipe.rehearsal` of a whole that holds so many samples beside them.

    Where rewrites are learned as they stand, none before there are any, in this batch or in earlier ones: it is they
    that nothing holds to what the base knows. What a hint asks for, a teacher says in the model's own words.

    >>> count(Recipe(distillation="vocabulary", rehearsal=0.25), 12)  # 4 of 16
    4
    >>> count(Recipe(distillation="vocabulary", rehearsal=0.25, w_sft=1), 12)
    0
    """
    if recipe.w_sft and not rewrites:
        return 0
    return round(samples * recipe.rehearsal / (1 - recipe.rehearsal))


def pool() -> QuerySet[Rehearsal]:
    """What the base that is served here has answered so far."""
    return Rehearsal.objects.filter(model=settings.MODEL)


def drawn(recipe: Recipe, samples: int, seed: int, rewrites: int = 0) -> list[Example]:
    """The rows that a run of so many samples and rewrites rehearses, none twice; fewer while the pool holds no more.

    The same seed draws the same rows of the same pool. Of each answer the first `TOKENS` are read, and no more than of
    any reply, and those between its opening and its end are learned from; it has neither reward nor teacher, so that
    it is held to the base (Recipe.trust).
    """
    keys = list(pool().values_list("pk", flat=True))
    chosen = random.Random(seed).sample(keys, min(count(recipe, samples, rewrites), len(keys)))
    rows = Rehearsal.objects.in_bulk(chosen)
    tokens = min(TOKENS, recipe.max_tokens or TOKENS)
    return [example(rows[key].prompt_ids, rows[key].response_ids, rows[key].logprobs, tokens) for key in chosen]


def example(prompt_ids: Sequence[int], answer_ids: Sequence[int], logprobs: Sequence[float], tokens: int) -> Example:
    """An answer of the base as runs learn it: `tokens` of it, at least one of them."""
    length = min(len(answer_ids), tokens)
    is_whole = length == len(answer_ids) < TOKENS  # its last token is its end
    learned = max(length - OPENING - is_whole, 1)
    behind = is_whole and length > 1
    return Example(
        prompt_ids=prompt_ids,
        response_ids=answer_ids[:length],
        old_logprobs=logprobs[:length],
        mask=[0.0] * (length - learned - behind) + [1.0] * learned + [0.0] * behind,
        kind="rehearsal",
    )
