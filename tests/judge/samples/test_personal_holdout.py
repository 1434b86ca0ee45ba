"""The personal holdout: which corrected turns never train, and that it stays so."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given
from hypothesis import strategies as st

from chat.models import Session, Turn
from checkpoints.models import Checkpoint, Line, Member
from feedback.models import Feedback
from judge.models import Judgement
from judge.samples import ledger, personal_holdout
from judge.samples.sample_rows import Reason
from training.config import Recipe
from training.models import Run, Sample
from webapp.journeys.known import journey

KEEPS = Recipe(holdout=0.5)


@pytest.fixture(autouse=True)
def after(monkeypatch):
    """The first two corrections of each person all teach."""
    monkeypatch.setattr(personal_holdout, "AFTER", 2)


@pytest.fixture
def places(monkeypatch):
    """Where turns stand, by their number; the others are at the far end."""
    known: dict[UUID, float] = {}
    monkeypatch.setattr(personal_holdout, "place", lambda turn: known.get(turn, 0.99))
    return known


@pytest.fixture
def correct(serve, say, judge_it, places):
    """A turn that was told what to do next time, and judged; `at` is its place."""

    def correct(at=0.99, recipe=KEEPS, kind="guidance", **fields) -> Judgement:
        turn = serve(**fields)
        places[turn.pk] = at
        say(turn, kind, "Use fewer words, please.")
        assert judge_it(turn, recipe)
        return Judgement.objects.select_related("turn", "sample").get(turn=turn)

    return correct


def judged_again(judge_it, turn, recipe=KEEPS) -> Judgement:
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    assert judge_it(Turn.objects.get(pk=turn.pk), recipe)
    return Judgement.objects.select_related("sample").get(turn=turn)


@given(st.uuids())
def test_a_turns_place_is_its_own_and_lies_between_0_and_1(turn):
    assert 0 <= personal_holdout.place(turn) < 1
    assert personal_holdout.place(turn) == personal_holdout.place(UUID(str(turn)))


def test_about_the_recipes_share_of_turns_is_kept():
    kept = sum(personal_holdout.place(UUID(int=number)) < Recipe().holdout for number in range(4000))
    assert 300 < kept < 500  # 400 expected, and 19 of standard deviation


def test_the_first_lessons_all_teach_and_then_a_share_is_kept(correct):
    first, second, third, fourth = (correct(at) for at in (0.1, 0.1, 0.1, 0.6))

    assert [one.held_out for one in (first, second, third, fourth)] == [False, False, True, False]
    assert third.sample is None
    assert (third.reason, third.reason_code, third.hint) == (Reason.KEPT, "kept", "Use fewer words, please.")
    assert Sample.objects.count() == 3
    assert ledger.why(third.turn).code == "kept"
    assert ledger.counted(Turn.objects.all())[1].code == "kept"
    assert journey(third.turn).label == "kept for examining"


def test_another_persons_corrections_do_not_count(correct, db):
    for _ in range(3):
        correct()
    other = Session.objects.create(user=get_user_model().objects.create_user("ben"))
    assert not correct(0.1, session=other).held_out
    assert correct(0.1).held_out


def test_a_thumb_alone_is_no_correction(correct, serve, say, judge_it, places):
    for _ in range(2):
        correct()
    turn = serve()
    places[turn.pk] = 0.1
    say(turn, "thumb", value=1)
    assert judge_it(turn, KEEPS)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.held_out, judgement.sample.reward) == (False, 1)


def test_what_is_kept_never_trains_whatever_is_said_later(correct, say, judge_it):
    for _ in range(2):
        correct()
    kept = correct(0.1)
    Feedback.objects.filter(turn=kept.turn).delete()  # the correction is gone, a thumb is there
    say(kept.turn, "thumb", value=1)

    again = judged_again(judge_it, kept.turn, Recipe(holdout=0))

    assert (again.held_out, again.sample, again.reason_code) == (True, None, "kept")


@pytest.mark.parametrize("status", ["trained", "claimed"])
def test_what_trained_is_never_kept(correct, judge_it, places, say, status):
    for _ in range(2):
        correct()
    taught = correct()
    assert taught.sample.status == "ready"
    Sample.objects.filter(pk=taught.sample.pk).update(status=status, run=Run.objects.create(recipe={}))
    places[taught.turn_id] = 0.1
    assert not personal_holdout.takes(taught.turn, taught, KEEPS)


def test_what_only_waits_gives_way_before_it_trains(correct, judge_it, places, say):
    for _ in range(3):
        last = correct()
    places[last.turn_id] = 0.1
    say(last.turn, "rewrite", "Four.")
    again = judged_again(judge_it, last.turn)
    last.sample.refresh_from_db()
    assert (again.held_out, again.sample, last.sample.status) == (True, None, "stale")


def test_nothing_is_kept_where_the_recipe_says_0(correct, monkeypatch):
    monkeypatch.setattr(personal_holdout, "AFTER", 0)
    assert not any(correct(0.0, recipe=Recipe(holdout=0)).held_out for _ in range(3))


def test_a_line_is_examined_with_its_own_people_each_ones_newest_first(correct, person, monkeypatch):
    monkeypatch.setattr(personal_holdout, "AFTER", 0)
    ben = Session.objects.create(user=get_user_model().objects.create_user("ben"))
    ana = [correct(0.1).turn_id for _ in range(3)]
    bens = correct(0.1, session=ben).turn_id

    assert [one.turn_id for one in personal_holdout.of("shared", 3)] == [ana[2], bens, ana[1]]
    member = Member.objects.create(
        user=person, line=Line.objects.create(name="ana", title="Ana", start=Checkpoint.live())
    )
    assert [one.turn_id for one in personal_holdout.of("ana", 9)] == ana[::-1]
    assert [one.turn_id for one in personal_holdout.of("shared", 9)] == [bens]
    Member.objects.filter(pk=member.pk).update(pools=True)
    assert len(personal_holdout.of("shared", 9)) == 4
    Turn.objects.filter(pk=bens).update(learns=False)  # off the record: it is not asked about either
    assert len(personal_holdout.of("shared", 9)) == 3
