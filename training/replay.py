"""What people wrote instead in earlier runs, learned again beside what they write now.

A batch holds a few rewrites, and four updates on a few learn their very words. Beside earlier ones, what they have in
common weighs more (what was seen of that is in decision 8). Teachers are shown them too (`training/demonstrations.py`).
"""

from __future__ import annotations

import random

from django.db.models import QuerySet

from checkpoints.models import Checkpoint
from training import batches
from training.config import Recipe
from training.models import Sample

RECENT = 4
"""Out of how many times as many as are learned again these are drawn, the newest: who changes their mind is not held to
what they wrote long ago."""


def earlier(start: Checkpoint) -> QuerySet[Sample]:
    """The samples with a rewrite of a person's that these weights have learned and no person has taken back since. What
    was learned and rolled back is none of them, nor what was imported."""
    told = Checkpoint.objects.order_by().values_list("pk", "parent", "run", "run__again")
    made = {pk: (parent, again or run) for pk, parent, run, again in told}
    runs: list[int] = []
    here: int | None = start.pk
    while here is not None:
        here, run = made[here]
        runs += [run] if run is not None else []
    rows = Sample.objects.filter(run__in=runs, status=Sample.Status.TRAINED, drop_reason="", rewrite_ids__isnull=False)
    return rows.exclude(batches.IMPORTED).exclude(response_ids=[]).order_by("pk")


def recent(start: Checkpoint, recipe: Recipe) -> list[int]:
    """The keys of the newest `RECENT` times as many of `earlier` as the recipe replays, oldest first."""
    return sorted(earlier(start).order_by("-pk").values_list("pk", flat=True)[: RECENT * recipe.replays])


def drawn(start: Checkpoint, recipe: Recipe, seed: int) -> list[Sample]:
    """`recipe.replay` of the recent ones, or as many as there are; the same seed draws the same of the same rows."""
    if not recipe.replays:
        return []
    keys = recent(start, recipe)
    chosen = random.Random(seed).sample(keys, min(recipe.replays, len(keys)))
    return list(Sample.objects.filter(pk__in=chosen).order_by("pk"))
