"""The console's twins in a terminal."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import CommandError

from checkpoints import promotion
from checkpoints.models import SHARED, Checkpoint, Decision, Line
from training.models import Run


def said(capsys, *words):
    call_command(*words)
    return capsys.readouterr().out


def test_checkpoints_are_listed_with_where_they_came_from(make_checkpoint, capsys):
    made = make_checkpoint(1)
    first, second = said(capsys, "checkpoints", "list").splitlines()
    assert first.split() == ["talkback@1", "passed", "from", "talkback@0,", *str(made.run).split()]
    assert second.split() == ["talkback@0", "live"]


def test_approve_says_yes_and_what_follows(make_checkpoint, capsys):
    make_checkpoint(1)
    assert "talkback@1 is approved" in said(capsys, "checkpoints", "approve", "1")
    assert Checkpoint.objects.get(number=1).status == "approved"
    assert Decision.objects.get().reason == "from the command line"


def test_approve_can_wait_until_it_is_live(make_checkpoint, capsys, monkeypatch):
    candidate = make_checkpoint(1)

    def worker(seconds):  # the pipeline's promotion, meanwhile
        Checkpoint.objects.get(pk=candidate.pk).go_live()

    monkeypatch.setattr("time.sleep", worker)
    assert "talkback@1 is live, after" in said(capsys, "checkpoints", "approve", "1", "--wait")


def test_waiting_for_a_checkpoint_that_fails_its_proof_fails(make_checkpoint, monkeypatch):
    candidate = make_checkpoint(1)

    def worker(seconds):
        Checkpoint.objects.get(pk=candidate.pk).move("rejected", reason="the engine answers with the base")

    monkeypatch.setattr("time.sleep", worker)
    with pytest.raises(CommandError, match="did not go live: the engine answers with the base"):
        call_command("checkpoints", "approve", "1", "--wait")


def test_approving_what_has_not_passed_fails_with_a_sentence(make_checkpoint):
    make_checkpoint(1, "candidate")
    with pytest.raises(CommandError, match="talkback@1 is candidate: only what passed the gate is approved"):
        call_command("checkpoints", "approve", "1")
    with pytest.raises(CommandError, match="There is no checkpoint 9"):
        call_command("checkpoints", "approve", "9")


def test_reject_keeps_the_reason(make_checkpoint, capsys):
    make_checkpoint(1)
    said(capsys, "checkpoints", "reject", "1", "--reason", "too short")
    assert Checkpoint.objects.get(number=1).reason == "too short"


def test_rollback_goes_back_at_once(make_checkpoint, engine, capsys):
    first, second = make_checkpoint(1, "approved"), make_checkpoint(2, "approved")
    for checkpoint in (first, second):
        async_to_sync(promotion.promote)(checkpoint)
    assert "talkback@1 is live" in said(capsys, "checkpoints", "rollback")
    assert "talkback@2 is live" in said(capsys, "checkpoints", "rollback", "--to", "2")
    assert Checkpoint.live() == second


def test_rollback_with_nothing_to_go_back_to_fails_with_a_sentence(db, engine):
    with pytest.raises(CommandError, match="nothing to roll back to"):
        call_command("checkpoints", "rollback")


def test_pipeline_prints_the_board(make_lesson, capsys):
    make_lesson()
    out = said(capsys, "pipeline")
    assert "talkback@0 answers" in out
    assert "Batch    1 of 16" in out
    assert "1 of 16 lessons. Training starts at 16, or now." in out


def test_pipeline_speaks_json(make_lesson, capsys):
    make_lesson()
    told = json.loads(said(capsys, "pipeline", "--json"))
    assert told["turns"]["judged"] == 1
    assert told["samples"]["ready"] == 1
    assert told["batch"] == {"ready": 1, "needed": 16, "wanting": 15, "corrections": 0}
    assert told["live"] == 0


def test_learn_now_starts_a_run(make_lesson, capsys):
    make_lesson()
    out = said(capsys, "learn_now")
    assert out.strip() == f"Run {Run.objects.get().pk} learns from 1 lesson."


def test_learn_now_with_nothing_ready_fails_with_a_sentence(db):
    with pytest.raises(CommandError, match="There is no lesson yet"):
        call_command("learn_now")


def test_two_operators_approve_by_name_and_one_twice_does_not(make_checkpoint, operator, capsys):
    Line.objects.filter(name=SHARED).update(policy={"second_approver": True})
    get_user_model().objects.create_user("bea", is_staff=True)
    make_checkpoint(1)
    first = said(capsys, "checkpoints", "approve", "1", "--by", "ana")
    assert "ana said the first yes of two to talkback@1" in first
    with pytest.raises(CommandError, match="You said yes to talkback@1 already"):
        call_command("checkpoints", "approve", "1", "--by", "ana")
    with pytest.raises(CommandError, match="say who you are"):
        call_command("checkpoints", "approve", "1")
    with pytest.raises(CommandError, match="No operator here is called 'ben'"):
        call_command("checkpoints", "approve", "1", "--by", "ben")
    assert "talkback@1 is approved" in said(capsys, "checkpoints", "approve", "1", "--by", "bea")


def test_a_checkpoint_is_held_and_released_and_listed_as_json(make_checkpoint, operator, capsys):
    make_checkpoint(1)
    said(capsys, "checkpoints", "hold", "1", "--reason", "wait for Monday", "--by", "ana")
    assert "passed     on hold" in said(capsys, "checkpoints", "list")
    listed = json.loads(said(capsys, "checkpoints", "list", "--json"))
    assert [(one["number"], one["status"], one["held"]) for one in listed] == [(1, "passed", True), (0, "live", False)]
    with pytest.raises(CommandError, match="release it first"):
        call_command("checkpoints", "approve", "1")
    assert "waits for a yes again" in said(capsys, "checkpoints", "release", "1")
    decided = [(one.verb, one.by) for one in Decision.objects.order_by("pk")]
    assert decided == [("hold", operator), ("release", None)]
