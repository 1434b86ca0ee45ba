"""A worker that is killed at any statement, or meets another, leaves one sample a step and a group that goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from episodes.models import Group
from judge import played_groups, steps
from judge.models import Judgement, Sitting
from tests.killed_workers import Fate, Killed
from tests.played_steps import samples_of, stop, turns_of
from training.models import Sample

pytestmark = [
    pytest.mark.processes,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]  # what is committed stays, in earnest


def free() -> None:
    """Time passes: a dead worker's seat is free again."""
    Sitting.objects.update(until=timezone.now() - timedelta(seconds=1))


def one_of_each(*episodes) -> None:
    for episode in episodes:
        assert [one.step for one in samples_of(episode)] == [0, 1]
        assert Sample.objects.filter(episode=episode).count() == 2
        assert Judgement.objects.filter(turn__session=episode.session_id).count() == 2
        assert {turn.status for turn in turns_of(episode)} == {"judged"}


def test_there_is_no_act_at_which_dying_loses_a_step_or_makes_two(play, judge_all, engine, group):
    """Every single act of the second attempt's verdicts and of its group's, in order, until one survives."""
    at, died = 0, True
    while died:
        at += 1
        again = Group.objects.create(
            user=group.user, name=f"g{at}", world="till", task=f"t{at}", split="train", attempts=2,
            checkpoint=group.checkpoint,
        )  # fmt: skip
        first, second = play(2, into=again), play(2, into=again, sampling={"temperature": 0.7})
        for episode in (first, second):
            stop(episode)
        judge_all(first)
        died = False
        try:
            with Fate(at).upon(engine):
                judge_all(second)
        except Killed:
            died = True
        free()
        if second in steps.unjudged(type(second).objects.all()):  # what the sweep does
            judge_all(second)
        played_groups.settle_left()
        one_of_each(first, second)
        assert Group.objects.get(pk=again.pk).judged_at is not None
    assert at > 15  # seat, steps, log-probs, samples, judgements, group


@pytest.mark.parametrize("is_late", [False, True])
def test_two_workers_at_once_write_each_step_once(play, judge_all, engine, monkeypatch, is_late):
    """The second comes while the first composes: the seat is taken or, given up, its own."""
    episode = play(2)
    stop(episode)
    compose, met = steps.step_rows.compose, []

    def compose_and_meet(*args, **options):
        if not met:
            met.append(None)
            if is_late:
                free()
            met[0] = judge_all(episode)
        return compose(*args, **options)

    monkeypatch.setattr(steps.step_rows, "compose", compose_and_meet)
    assert judge_all(episode) is not is_late
    assert met == [is_late]
    one_of_each(episode)
