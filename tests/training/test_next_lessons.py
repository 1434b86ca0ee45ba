"""What the next runs would claim is what they claim."""

from __future__ import annotations

import pytest
from django.db import transaction

from checkpoints.models import SHARED, Checkpoint
from tests.ready_attempts import FAILED, SOLVED
from training import batches
from training.config import Recipe
from training.models import Run
from training.next_run import next_lessons

FEW = Recipe(batch_size=6, w_opd=0.0, w_sft=0.0)
AWAITING = Recipe(batch_size=4, w_opd=0.0, w_sft=1.0, awaits=0.5)


@pytest.mark.parametrize(("recipe", "replies", "steps"), [(FEW, (5, 4), (4, 4)), (AWAITING, (4, 4), (0, 0))])
def test_what_is_foretold_is_claimed_in_its_order(
    play, ready, django_assert_num_queries, monkeypatch, recipe, replies, steps
):
    orders, claim = [], batches._claim

    def told(samples, *rest, **fields):
        orders.append(list(samples))
        return claim(samples, *rest, **fields)

    monkeypatch.setattr(batches, "_claim", told)
    failed = Run.objects.create(recipe=recipe.model_dump(), parent=Checkpoint.live(), status=Run.Status.FAILED)
    ready(run=failed, reward=1.0, teacher_prompt_ids=None)  # what failed once is left to a person's click
    for voted in (True, True, False):
        ready(reward=1.0, teacher_prompt_ids=None, voted=voted)
    ready(reward=1.0, teacher_prompt_ids=None, rewrite_ids=[5, 6])
    if recipe is AWAITING:
        ready(reward=1.0, teacher_prompt_ids=None, rewrite_ids=[7, 8])
    play(SOLVED, FAILED), play(SOLVED, FAILED)
    known = batches.filled_with({SHARED: recipe})[SHARED]

    with django_assert_num_queries(1):
        both = next_lessons.claimed(recipe, *known)

    with transaction.atomic():
        asked = set(batches.learn_now(recipe).samples.all())
        transaction.set_rollback(True)
    assert [set(one) for one in both] == [asked, set(batches.fill(recipe).samples.all())]
    assert [[one for one in found if one.step is None] for found in both] == [
        [one for one in order if one.step is None] for order in orders
    ]
    assert tuple(sum(one.step is None for one in found) for found in both) == replies
    assert tuple(sum(one.step is not None for one in found) for found in both) == steps
