"""Rows that move are heard by the pages whose turns they speak of."""

from __future__ import annotations

import pytest

from chat.models import Turn
from checkpoints.models import Checkpoint
from core.states import moved
from judge.models import Judgement
from tests.rows import made_by
from training.models import Run, Sample
from webapp import live_pages


def heard(sender, pk, status):
    """What the pages of sessions are told."""
    return [(group, event) for group, event in live_pages.events(sender, pk, status) if group.startswith("session.")]


@pytest.mark.parametrize("status", ["answering", "served", "closed"])
def test_a_turn_that_looks_different_is_drawn_whole(make_turn, status):
    turn = make_turn(status)
    event = {"type": "turn.changed", "turn": str(turn.pk), "status": status}
    assert heard(Turn, turn.pk, status) == [(turn.session.group, event)]


@pytest.mark.parametrize("status", ["observed", "judged"])
def test_a_turn_that_came_further_shows_in_its_chip(make_turn, status):
    turn = make_turn(status)
    assert heard(Turn, turn.pk, status) == [(turn.session.group, {"type": "chips.changed", "turns": [str(turn.pk)]})]


def test_what_becomes_of_a_sample_shows_at_its_turn(make_lesson):
    make_lesson()
    run = Run.objects.create(recipe={}, status="running")
    make_lesson("claimed", run=run)
    judgement = Judgement.objects.get(sample__status="claimed")
    checkpoint = made_by(run, Checkpoint.objects.create(number=3, adapter="talkback-3-x"))
    chip = (judgement.turn.session.group, {"type": "chips.changed", "turns": [str(judgement.turn_id)]})
    assert heard(Sample, judgement.sample_id, "claimed") == [chip]
    assert heard(Run, run.pk, "running") == [chip]
    assert heard(Checkpoint, checkpoint.pk, "candidate") == [chip]


def test_a_new_sample_moves_every_chip_of_the_batch(make_lesson):
    for _ in range(2):
        make_lesson()
    newest = Sample.objects.latest("pk")
    groups = {group for group, _ in heard(Sample, newest.pk, "ready")}
    assert groups == {judgement.turn.session.group for judgement in Judgement.objects.all()}


def test_what_no_person_can_see_is_told_to_no_page(db):
    assert heard(Checkpoint, Checkpoint.live().pk, "live") == []
    assert heard(Turn, "00000000-0000-0000-0000-000000000000", "served") == []


def test_a_move_stands_when_no_page_can_be_told(make_turn, monkeypatch, django_capture_on_commit_callbacks):
    class Away:
        async def group_send(self, *args: object) -> None:
            raise ConnectionRefusedError

    monkeypatch.setattr(live_pages, "get_channel_layer", Away)
    turn = make_turn("served")
    with django_capture_on_commit_callbacks(execute=True):
        turn.move(Turn.Status.CLOSED)
    turn.refresh_from_db()
    assert turn.status == Turn.Status.CLOSED


def test_every_move_is_heard():
    assert any(receiver[0][0] == "live" for receiver in moved.receivers)
