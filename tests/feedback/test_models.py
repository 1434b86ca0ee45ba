"""What was said of a reply stands until it is changed or taken back, and a verdict is due each time."""

from __future__ import annotations

import pytest

from chat.models import Turn
from chat.turns import TurnUnfinished
from feedback.models import Feedback

give, withdraw, standing = Feedback.objects.give, Feedback.objects.withdraw, Feedback.objects.standing


def judged(turn: Turn) -> None:
    turn.refresh_from_db()
    if turn.status == Turn.Status.SERVED:
        turn.move(Turn.Status.OBSERVED)
    turn.move(Turn.Status.JUDGED)


def test_a_thumb_makes_a_verdict_due(turn, ana):
    give(turn, by=ana, kind="thumb", value=1)
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED
    assert turn.observed_at is not None


def test_saying_the_same_again_is_nothing(turn, ana):
    first = give(turn, by=ana, kind="thumb", value=1)
    judged(turn)
    assert give(turn, by=ana, kind="thumb", value=1) == first
    turn.refresh_from_db()
    assert turn.status == Turn.Status.JUDGED
    assert Feedback.objects.count() == 1


@pytest.mark.parametrize("status", ["served", "judged", "closed"])
def test_a_changed_mind_replaces_what_stood_and_keeps_it_on_record(turn, ana, status):
    give(turn, by=ana, kind="thumb", value=1)
    if status == "judged":
        judged(turn)
    give(turn, by=ana, kind="thumb", value=-1)
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED
    assert [row.value for row in standing()] == [-1]
    assert [row.value for row in Feedback.objects.exclude(withdrawn_at=None)] == [1]


def test_a_closed_turn_is_opened_again(turn, ana):
    turn.move(Turn.Status.CLOSED)
    give(turn, by=ana, kind="guidance", text="Be brief.")
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED


def test_taking_it_back_opens_the_verdict_again(turn, ana):
    give(turn, by=ana, kind="thumb", value=1)
    judged(turn)
    assert withdraw(turn, by=ana, kind="thumb")
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED
    assert not standing().exists()


def test_taking_back_what_was_never_said_is_nothing(turn, ana):
    assert not withdraw(turn, by=ana, kind="thumb")
    turn.refresh_from_db()
    assert turn.status == Turn.Status.SERVED


def test_kinds_stand_side_by_side(turn, ana):
    give(turn, by=ana, kind="thumb", value=-1)
    give(turn, by=ana, kind="rewrite", text="Four.")
    give(turn, by=ana, kind="guidance", text="Do the sum.")
    assert standing().count() == 3


def test_what_is_said_while_it_is_judged_changes_when_it_was_observed(turn, ana):
    give(turn, by=ana, kind="thumb", value=1)
    turn.refresh_from_db()
    before = turn.observed_at
    give(turn, by=ana, kind="guidance", text="Be brief.")
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED
    assert turn.observed_at > before


def test_a_reply_that_is_being_written_waits(turn, ana):
    Turn.objects.update(status=Turn.Status.ANSWERING)
    with pytest.raises(TurnUnfinished):
        give(turn, by=ana, kind="thumb", value=1)
    assert not Feedback.objects.exists()


def test_off_the_record_it_is_kept_and_nothing_is_due(turn, ana):
    turn.session.learns = False
    turn.session.save()
    give(turn, by=ana, kind="thumb", value=1)
    turn.refresh_from_db()
    assert turn.status == Turn.Status.SERVED
    assert standing().count() == 1


def test_one_person_has_one_thumb_on_a_reply_whoever_else_has(turn, ana, ben):
    give(turn, by=ana, kind="thumb", value=1)
    give(turn, by=ben, kind="thumb", value=-1)
    assert {row.by_id: row.value for row in standing()} == {ana.pk: 1, ben.pk: -1}
