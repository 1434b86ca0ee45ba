"""Trials: who is answered by what is being tried, and how it ends."""

from __future__ import annotations

from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model

from chat.models import Session, Turn
from checkpoints import loading, promotion, trials
from checkpoints.loading import Unproven
from checkpoints.models import Checkpoint, Decision, Line, Member, Taint, Trial
from checkpoints.trials import TrialRefused
from gpu_workers.errors import EngineUnavailable
from tests.chat.conftest import ask_in

start, tidy, promote = (async_to_sync(f) for f in (trials.start, loading.tidy, promotion.promote))


@pytest.fixture(autouse=True)
def small(settings, tiny_model, tmp_path):
    settings.MODEL, settings.MODEL_NAME, settings.DATA_DIR = str(tiny_model), "talkback", tmp_path


@pytest.fixture
def ana(db):
    return get_user_model().objects.create_user("ana", is_staff=True)


@pytest.fixture
def ben(db):
    return get_user_model().objects.create_user("ben")


@pytest.fixture
def make(engine, db):
    """A checkpoint that the scripted engine answers for as its learner would."""

    def make(number, status="passed", **fields):
        adapter = f"talkback-{number}-{number:08x}"
        fields = {"adapter": adapter, "path": f"checkpoints/{number}", "probe": engine.probe(adapter)} | fields
        return Checkpoint.objects.create(number=number, status=status, **fields)

    return make


def answers(person, session=None):
    """The number of the checkpoint that answers the next thing this person says there."""
    session = session or Session.objects.create(user=person)
    turn = ask_in(session, [{"role": "user", "content": "Hello"}])
    turn.move(Turn.Status.CLOSED)
    return turn.checkpoint.number


def test_a_trial_answers_its_share_of_the_sessions_and_keeps_to_them(make, engine, ana, ben):
    first = make(1)
    trial = start(first, share=30, by=ana, reason="to see")

    sessions = [Session.objects.create(user=ben) for _ in range(20)]
    before = [answers(ben, session) for session in sessions]

    assert before == [1 if trials.falls_to(trial.pk, session.pk, 30) else 0 for session in sessions]
    assert [answers(ben, session) for session in sessions] == before  # a session keeps its weights
    assert engine.loaded == {first.adapter: str(first.folder)}
    decision = Decision.objects.get()
    assert (decision.checkpoint, decision.verb, decision.by) == (first, "try", ana)
    assert decision.reason == "With 30 per cent of the sessions, beside talkback@0. to see"
    assert Checkpoint.live().number == 0  # nothing else went live


def test_another_trial_takes_other_sessions():
    sessions = [UUID(int=n) for n in range(200)]
    taken = [{session for session in sessions if trials.falls_to(trial, session, 20)} for trial in (1, 2)]
    assert taken[0] - taken[1]
    assert taken[1] - taken[0]


def test_reviewers_alone_are_answered_by_a_trial_without_a_share(make, ana, ben):
    start(make(1), share=0, by=ana)
    assert [answers(ana), answers(ben)] == [1, 0]


def test_only_the_trials_line_is_tried_with(make, ana, ben):
    line = Line.objects.create(name="bens", title="Ben's", start=Checkpoint.objects.get(number=0))
    Member.objects.create(user=ben, line=line)
    start(make(1), share=90, by=ana)
    start(make(2, line=line), share=0, by=ana)  # another line may have one at the same time
    assert {answers(ben) for _ in range(10)} == {0}
    Member.objects.create(user=ana, line=line)
    assert answers(ana) == 2


def test_without_a_trial_the_choice_asks_the_database_once(make, ben, django_assert_num_queries):
    session = Session.objects.create(user=ben)
    with django_assert_num_queries(1):
        assert trials.answering(Checkpoint.for_user(ben), ben.pk, session.pk).number == 0
    start(make(1), share=90, by=None)
    with django_assert_num_queries(2):
        trials.answering(Checkpoint.for_user(ben), ben.pk, session.pk)


def test_what_was_asked_for_by_name_stays(make, ben):
    start(make(1), share=90, by=None)
    base = Checkpoint.objects.get(number=0)
    sessions = [Session.objects.create(user=ben) for _ in range(10)]
    said = [{"role": "user", "content": "Hello"}]
    assert {ask_in(one, said, checkpoint=base).checkpoint.number for one in sessions} == {0}


def test_the_engine_keeps_what_is_tried(make, engine):
    oldest = make(1)
    start(oldest, share=10, by=None)
    for number in range(2, 6):  # more that wait for a person than stay warm
        make(number)
    assert oldest in loading.wanted()
    tidy(engine)
    assert oldest.adapter in engine.loaded


def test_weights_that_are_not_proven_are_not_tried(make, engine, ben):
    lied_about = make(1)
    engine.logprobs = lambda prompt, response, adapter: [-1.0] * len(response)  # the base, under any name
    with pytest.raises(Unproven):
        start(lied_about, share=90, by=None)
    assert not Trial.objects.exists()
    assert answers(ben) == 0


def test_an_engine_that_is_away_changes_nothing(make, engine):
    engine.goes_down()
    with pytest.raises(EngineUnavailable):
        start(make(1), share=10, by=None)
    assert not Trial.objects.exists()


@pytest.mark.parametrize("status", ["candidate", "rejected", "retired"])
def test_only_what_passed_and_does_not_answer_yet_is_tried(make, status):
    with pytest.raises(TrialRefused, match=f"talkback@1 is {status}"):
        start(make(1, status), share=10, by=None)


def test_a_trial_that_makes_no_sense_is_refused_with_a_reason(make):
    first = make(1)
    for share in (-1, 91):
        with pytest.raises(TrialRefused, match="0 \\(reviewers only\\) to 90 per cent"):
            start(first, share=share, by=None)
    start(first, share=10, by=None)
    with pytest.raises(TrialRefused, match="talkback@1 is being tried already"):
        start(make(2), share=10, by=None)
    tainted = make(3)
    Taint.objects.create(checkpoint=tainted, samples=1, reason="a chat was deleted")
    assert "people took back" in trials.why_not(tainted, 10)


def test_a_person_ends_a_trial_once(make, ana, ben):
    trial = start(make(1), share=90, by=ana)
    assert trials.end(trial, by=ana, reason="enough")
    assert not trials.end(trial, by=ana, reason="enough")
    assert {answers(ben) for _ in range(10)} == {0}
    assert (trial.outcome, trial.ended_at is None) == ("stopped", False)
    assert Decision.objects.filter(verb="end trial").count() == 1


def test_a_trial_ends_with_what_it_stood_on(make, ben):
    """The checkpoint is rejected, or something goes live: no person is answered by the trial from that very moment."""
    first, second, third = make(1), make(2), make(3, "approved")
    start(first, share=90, by=None)
    first.decide("rejected", by=None, reason="no")
    assert {answers(ben) for _ in range(10)} == {0}
    assert trials.end_overtaken() == 1

    trial = start(second, share=90, by=None)
    promote(third)
    assert {answers(ben) for _ in range(10)} == {3}
    assert trials.end_overtaken() == 1
    assert trials.end_overtaken() == 0
    trial.refresh_from_db()
    assert trial.outcome == "stopped"
    assert second.decisions.first().reason == "Stopped. talkback@3 is live in place of talkback@0."


def test_what_was_tried_may_go_live(make, ben):
    first = make(1)
    start(first, share=10, by=None)
    first.decide("approved", by=None)
    promote(first)
    assert {answers(ben) for _ in range(10)} == {1}
    assert trials.end_overtaken() == 1
