"""What was said of a reply stands until it is changed or taken back, and a verdict is due each time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.models import Turn
from chat.turns import TurnUnfinished
from feedback import spans
from feedback.models import Feedback, MarksInvalid

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


def test_one_person_has_one_thumb_on_a_reply_beside_those_of_others(turn, ana, ben):
    give(turn, by=ana, kind="thumb", value=1)
    give(turn, by=ben, kind="thumb", value=-1)
    assert {row.by_id: row.value for row in standing()} == {ana.pk: 1, ben.pk: -1}


def marks():
    return [row.spans for row in standing().filter(kind="marks")]


def test_a_mark_joins_those_that_stand_and_the_newest_wins_where_they_overlap(turn, ana):
    mark = Feedback.objects.mark
    assert mark(turn, by=ana, start=0, end=2, sign=1)
    assert mark(turn, by=ana, start=3, end=5, sign=-1)
    assert marks() == [[[0, 2, 1], [3, 5, -1]]]
    assert mark(turn, by=ana, start=1, end=4, sign=-1)
    assert marks() == [[[0, 1, 1], [1, 5, -1]]]
    assert Feedback.objects.count() == 3  # one standing, two on record


def test_a_mark_that_stands_already_is_nothing(turn, ana):
    Feedback.objects.mark(turn, by=ana, start=0, end=4, sign=1)
    judged(turn)
    assert not Feedback.objects.mark(turn, by=ana, start=1, end=3, sign=1)
    turn.refresh_from_db()
    assert turn.status == Turn.Status.JUDGED


def test_marks_are_wiped_out_one_by_one_and_the_last_takes_the_row_with_it(turn, ana):
    Feedback.objects.mark(turn, by=ana, start=0, end=2, sign=1)
    Feedback.objects.mark(turn, by=ana, start=3, end=5, sign=-1)
    Feedback.objects.mark(turn, by=ana, start=0, end=2, sign=0)
    assert marks() == [[[3, 5, -1]]]
    judged(turn)
    assert Feedback.objects.mark(turn, by=ana, start=0, end=5, sign=0)
    assert marks() == []
    turn.refresh_from_db()
    assert turn.status == Turn.Status.OBSERVED


def test_two_people_mark_apart(turn, ana, ben):
    Feedback.objects.mark(turn, by=ana, start=0, end=2, sign=1)
    Feedback.objects.mark(turn, by=ben, start=0, end=5, sign=-1)
    assert sorted(marks()) == [[[0, 2, 1]], [[0, 5, -1]]]


@pytest.mark.parametrize("span", [(0, 6, 1), (-1, 2, 1), (2, 2, 1), (3, 2, -1), (0, 2, 5)])
def test_what_is_no_part_of_the_reply_cannot_be_marked(turn, ana, span):
    with pytest.raises(MarksInvalid):
        give(turn, by=ana, kind="marks", spans=[span])
    assert not Feedback.objects.exists()


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(1, 12), st.sampled_from([-1, 0, 1])), max_size=8))
def test_painted_marks_are_what_a_brush_leaves(strokes):
    strokes = [(min(a, b), max(a, b) + (a == b), sign) for a, b, sign in strokes]
    strokes = [one for one in strokes if one[1] <= 12]
    paper = [0] * 12
    for start, end, sign in strokes:
        for at in range(start, end):
            paper[at] = sign
    kept = spans.paint(strokes, 12)
    left = [0] * 12
    for start, end, sign in kept:
        left[start:end] = [sign] * (end - start)
    assert left == paper
    assert kept == sorted(kept)
    assert all(one[1] < two[0] or one[2] != two[2] for one, two in itertools.pairwise(kept))
    assert spans.paint(kept, 12) == kept


def test_more_marks_than_a_person_sets_are_refused(turn):
    with pytest.raises(ValueError, match="at most 200 marks; these are 201"):
        spans.paint([(2 * n, 2 * n + 1, 1) for n in range(201)], 500)
