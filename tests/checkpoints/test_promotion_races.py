"""Many operators at once, on a database that lets them: one checkpoint is live at any moment, and one of two wins."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from checkpoints import promotion
from checkpoints.models import SHARED, Checkpoint, Decision, Line
from core.errors import IllegalMove
from tests.races import at_once

PROMPT, RESPONSE = [5, 6, 7], [8, 9, 2]

pytestmark = [
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
    pytest.mark.database("postgresql"),  # SQLite lets one writer in at a time: nothing can race
]


def approved(engine, number, line=SHARED):
    adapter = f"talkback-{number}-{number:08x}"
    probe = {"prompt_ids": PROMPT, "response_ids": RESPONSE, "logprobs": engine.logprobs(PROMPT, RESPONSE, adapter)}
    return Checkpoint.objects.create(
        number=number, status="approved", adapter=adapter, path=f"checkpoints/{number}", probe=probe, line_id=line
    )


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
        lambda: fresh().decide("approved", by=None),
        lambda: fresh().decide("approved", by=None),
    )

    assert sum(isinstance(outcome, IllegalMove) for outcome in outcomes) == 1
    assert Decision.objects.filter(verb="approve").count() == 1


def test_swaps_of_three_lines_at_once_leave_one_live_in_each(engine):
    base = Checkpoint.objects.get(number=0)
    names = [SHARED, *(Line.objects.create(name=name, title=name, start=base).name for name in ("ana", "ben"))]
    checkpoints = [approved(engine, number, names[number % 3]) for number in range(1, 10)]

    outcomes = at_once(*(lambda c=c: async_to_sync(promotion.promote)(c) for c in checkpoints))

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert sorted(Checkpoint.objects.filter(status="live").values_list("line", flat=True)) == ["ana", "ben", SHARED]
    for name in names:
        assert Decision.objects.filter(checkpoint__line=name).first().checkpoint == Checkpoint.live(name)


def test_while_a_line_steps_back_to_where_it_started_another_of_its_own_may_go_live(engine):
    base = Checkpoint.objects.get(number=0)
    Line.objects.create(name="ana", title="Ana", start=base)
    first, second = approved(engine, 1, "ana"), approved(engine, 2, "ana")
    async_to_sync(promotion.promote)(first)

    outcomes = at_once(
        lambda: async_to_sync(promotion.roll_back)(to=base, line="ana"),
        lambda: async_to_sync(promotion.promote)(second),
    )

    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert Checkpoint.live("ana") in (base, second)
    assert Checkpoint.objects.filter(status="live", line="ana").count() == (Checkpoint.live("ana") == second)
