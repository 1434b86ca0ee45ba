"""A worker that is killed at any statement or question leaves a turn that comes to exactly one verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.models import Turn
from judge.models import Judgement, Sitting, Vote
from tests.killed_workers import Fate, Killed
from training.models import Sample

pytestmark = [
    pytest.mark.processes,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]  # what is committed stays, in earnest


@pytest.fixture
def answering(engine, monkeypatch):
    monkeypatch.setattr("celery.Task.apply_async", lambda task, arguments=(), **options: None)
    engine.says(r"\boxed{1} [HINT_START] Answer in one short sentence. [HINT_END]", to="Does what came", times=None)
    engine.says(r"\boxed{-1}", times=None)
    return engine


@pytest.fixture
def dying(answering, judge_it) -> Callable[[Turn, int], bool]:
    """Judge a turn and die at an act; True when that was before the end. Then time passes, and its seat is free."""

    def dying(turn: Turn, at: int) -> bool:
        died = False
        try:
            with Fate(at).upon(answering):
                judge_it(turn)
        except Killed:
            died = True
        Sitting.objects.update(until=timezone.now() - timedelta(seconds=1))
        return died

    return dying


def one_of_each(turn: Turn) -> None:
    assert Turn.objects.get(pk=turn.pk).status == "judged"
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.reward_from) == (-1, "votes")
    # After a person's first twelve corrections one in ten is kept for examining, and makes none.
    assert Sample.objects.filter(prompt_ids=turn.prompt_ids).count() == int(not judgement.held_out)
    assert judgement.sample == Sample.objects.filter(prompt_ids=turn.prompt_ids).first()
    readable = Vote.objects.filter(turn=turn, score__isnull=False)
    places = Counter(readable.values_list("question", "index", "evidence"))
    assert set(places.values()) == {1}, "a vote that was read was asked for again"
    assert len(places) == 6


@given(st.lists(st.integers(1, 90), max_size=5))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whenever_workers_die_there_is_one_verdict_and_at_most_one_sample(serve, judge_it, dying, deaths):
    turn = serve(request=f"Question {Turn.objects.count()}?", next_state="Shorter, please.")
    for at in deaths:
        dying(turn, at)
        assert Judgement.objects.filter(turn=turn).count() == (Turn.objects.get(pk=turn.pk).status == "judged")
    judge_it(turn)
    one_of_each(turn)


def test_there_is_no_act_at_which_dying_does_harm(serve, judge_it, dying):
    """Every single act of a verdict, in order, until one survives to its end."""
    at, died = 0, True
    while died:
        at += 1
        turn = serve(request=f"Question {at}?", next_state="Shorter, please.")
        died = dying(turn, at)
        judge_it(turn)
        one_of_each(turn)
    assert at > 30  # it is a long way: seats, votes, log-probs, sample, verdict
