"""Weights that learned from something that was taken back say so, and so do those that were trained on from there."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from checkpoints.models import Checkpoint, Taint
from checkpoints.notice_rows import Notice
from tests.rows import made_by
from training import batches
from training.config import Recipe
from training.models import Run, Sample
from training.provenance import taints


@pytest.fixture
def grow(db):
    """A checkpoint with a run that learned so many samples, on from another."""

    def grow(parent=None, samples=1, **fields):
        parent = parent or Checkpoint.objects.get(number=0)
        run = Run.objects.create(status="finished", recipe={}, parent=parent, **fields)
        number = Checkpoint.objects.count()
        checkpoint = made_by(
            run, Checkpoint.objects.create(number=number, parent=parent, adapter=f"a{number}", status="retired")
        )
        for _ in range(samples):
            learned(checkpoint)
        return checkpoint

    return grow


def learned(checkpoint, **fields):
    said = {
        "prompt_ids": [1],
        "response_ids": [2],
        "behaviour_logprobs": [-1.0],
        "reward": 1.0,
        "status": "trained",
    } | fields
    return Sample.objects.create(run=checkpoint.run, checkpoint=checkpoint.parent, **said)


def take_back(*samples, reason="its chat was deleted"):
    rows = Sample.objects.filter(pk__in=[sample.pk for sample in samples])
    rows.update(drop_reason=reason)
    return taints.mark(rows)


def tainted():
    return {taint.checkpoint.number: taint.samples for taint in Taint.objects.select_related("checkpoint")}


def test_what_learned_it_and_what_came_of_that_is_named_at_once(grow):
    first = grow()
    second = grow(first, samples=2)
    third = grow(second)
    grow(first)  # a branch that never saw it

    named = take_back(*second.run.samples.all())

    assert [one.number for one in named] == [3, 2]  # the newest first
    assert tainted() == {second.number: 2, third.number: 2}


def test_marking_twice_changes_nothing_and_more_counts_more(grow, django_capture_on_commit_callbacks):
    first = grow(samples=2)
    one, other = first.run.samples.all()
    with django_capture_on_commit_callbacks(execute=True):
        take_back(one)
        take_back(one)
    assert tainted() == {1: 1}
    with django_capture_on_commit_callbacks(execute=True):
        take_back(other, reason="its person took it off the record")
    taint = Taint.objects.get()
    assert (taint.samples, taint.reason) == (2, "its chat was deleted; its person took it off the record")
    [notice] = Notice.objects.all()
    assert "2 replies was taken back, and is in the weights of talkback@1" in notice.text


def test_what_waits_or_is_being_learned_taints_nothing(grow):
    first = grow()
    assert take_back(learned(first, status="claimed"), learned(first, status="ready")) == []
    assert not Taint.objects.exists()


def test_what_a_repeated_run_left_out_does_not_taint_it_and_what_it_learned_does(grow):
    first = grow(samples=2)
    out, kept = first.run.samples.all()
    take_back(out)
    clean = grow(samples=0, again=first.run, learned=[kept.pk])
    taints.look()
    assert tainted() == {first.number: 1}
    take_back(kept)
    assert tainted() == {first.number: 2, clean.number: 1}


def test_what_is_said_again_is_not_taken_back(grow):
    first = grow()
    Sample.objects.update(origin=(turn := uuid4()))
    before, after = timezone.now() - timedelta(hours=1), timezone.now() + timedelta(hours=1)
    assert taints.withdraw(turn, [(before, before)]) == []  # it stood before the sample was made
    assert taints.withdraw(turn, [(after, None)]) == []  # it was said after that
    assert taints.withdraw(turn, [(before, None)]) == [first] == taints.tainted_by(turn)
    assert tainted() == {1: 1}

    taints.restore(Sample.objects.all())

    assert (tainted(), taints.tainted_by(turn)) == ({}, [])


def test_the_sweep_finds_what_two_at_once_did_not_see_of_each_other(grow):
    first = grow()
    Sample.objects.update(drop_reason="its chat was deleted")
    assert [taint.checkpoint for taint in taints.look()] == [first]
    assert taints.look() == []


def test_what_was_taken_back_while_a_run_had_it_is_not_claimed_again(ready):
    ready(drop_reason="its feedback was withdrawn")
    assert not batches.ready(Recipe()).exists()
    kept = ready()
    run = batches.learn_now(Recipe())
    gone = ready(status="claimed", run=run, drop_reason="its chat was deleted")
    assert batches.fresh([kept, gone], Checkpoint.live(), Recipe()) == [kept]
    gone.refresh_from_db()
    assert (gone.status, gone.drop_reason) == ("stale", "its chat was deleted")
