"""Many operators at once, on a database that lets them: one checkpoint is live at any moment, and one of two wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from asgiref.sync import async_to_sync
from django.db import connection

from core.errors import IllegalMove
from training import promotion
from training.models import Checkpoint, Decision

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.skipif("sqlite" in connection.vendor, reason="SQLite lets one writer in at a time: nothing can race"),
]


def approved(engine, number):
    adapter = f"talkback-{number}-{number:08x}"
    probe = {"prompt_ids": PROMPT, "response_ids": RESPONSE, "logprobs": engine.logprobs(PROMPT, RESPONSE, adapter)}
    return Checkpoint.objects.create(
        number=number, status="approved", adapter=adapter, path=f"checkpoints/{number}", probe=probe
    )


def at_once(*acts):
    """What each act returned or raised; all of them start together, each on its own connection."""
    start = Barrier(len(acts))

    def run(act):
        try:
            start.wait(10)
            return act()
        except IllegalMove as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def test_eight_swaps_at_once_leave_one_live(engine):
    checkpoints = [approved(engine, number) for number in range(1, 9)]

    outcomes = at_once(*(lambda c=c: async_to_sync(promotion.promote)(c) for c in checkpoints))

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert Checkpoint.objects.filter(status="live").count() == 1
    assert Decision.objects.filter(verb="promote").count() == 8
    assert Decision.objects.first().checkpoint == Checkpoint.live()


def test_of_two_who_roll_back_from_the_same_page_one_wins(engine):
    first, second = approved(engine, 1), approved(engine, 2)
    for checkpoint in (first, second):
        async_to_sync(promotion.promote)(checkpoint)
    base = Checkpoint.objects.get(number=0)

    def back(to):
        return lambda: async_to_sync(promotion.roll_back)(to=to, instead_of=second)

    outcomes = at_once(back(first), back(base))

    assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 1
    assert Checkpoint.live() in (first, base)


def test_of_two_who_decide_at_once_one_wins(engine):
    candidate = approved(engine, 1)
    Checkpoint.objects.filter(pk=candidate.pk).update(status="passed")

    def fresh():
        return Checkpoint.objects.get(pk=candidate.pk)

    outcomes = at_once(
        lambda: promotion.approve(fresh(), by=None),
        lambda: promotion.approve(fresh(), by=None),
    )

    assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 1
    assert Decision.objects.filter(verb="approve").count() == 1
