"""What the next runs of a line would claim, were they to begin now. Nothing is claimed."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from checkpoints.models import SHARED
from training import batches
from training.agents import groups
from training.config import Recipe
from training.filling import Filling
from training.models import Sample


def claimed(
    recipe: Recipe, batch: Filling, played: Sequence[groups.Waiting], line: str = SHARED
) -> tuple[list[Sample], list[Sample]]:
    """What "learn now" would claim in this line, and what the next run that begins by itself would: replies in turn,
    and the steps of whole groups, each with its verdict and its episode. The line's batch and its groups are known, as
    `batches.filled_with` has them. One query."""
    untried = [one for one in played if not one.is_tried]
    every = batch.ready + batch.set_aside - sum(one.attempts for one in played)
    of_now = groups.first(played, recipe.batch_size - min(every, recipe.batch_size))
    of_next = groups.first(untried, recipe.batch_size - min(batch.ready - batch.attempts, recipe.batch_size))
    first = [
        batches.in_turn(rows, batch).values("pk")[: recipe.batch_size]
        for rows in (batches.ready(recipe, line), batches.waiting(recipe, line))
    ]
    wanted = Q(pk__in=first[0]) | Q(pk__in=first[1])
    if chosen := {*of_now, *of_next}:
        wanted |= Q(pk__in=groups.claimable(recipe, line, list(chosen)).order_by().values("pk"))
    rows = batches.in_turn(Sample.objects.filter(wanted).order_by("pk"), batch)
    found = list(rows.select_related("judgement", "episode").defer(*BESIDE))
    replies = [one for one in found if one.step is None]
    waits = [one for one in replies if one.run_id is None and not (recipe.awaited and one.passed_by_id)]
    steps = sorted((one for one in found if one.step is not None), key=lambda one: one.pk)

    def of(chosen: Sequence[groups.Waiting]) -> list[Sample]:
        keys = {one.group for one in chosen}
        return [one for one in steps if one.episode is not None and one.episode.group_id in keys]

    size = recipe.batch_size
    return [*replies[:size], *of(of_now)], [*waits[:size], *of(of_next)]


BESIDE = ("sampled_logprobs", "judgement__teacher", "judgement__evidence")
"""Of a sample and its verdict what is not looked at before a run has it."""
