"""Off the record, judging leaves nothing behind; a reviewer's no can be undone, and a person's yes cannot undo it."""

from __future__ import annotations

import pytest

from chat import turns
from chat.api_keys import ApiKey
from chat.models import Session, Turn
from judge.hints import decisions, reviews, undoing
from judge.models import Hint, Judgement, Vote
from judge.samples.sample_rows import Reason
from privacy import consent
from training.models import Sample

PRAISE = r"\boxed{1}"


@pytest.fixture
def judged(serve, say, judge_it, engine):
    """A turn that was voted on, and corrected, and made a sample."""
    engine.says(PRAISE, times=None)
    turn = serve(next_state="Thanks, that is what I wanted.")
    assert judge_it(turn)
    say(turn, "guidance", "Use fewer words.")
    turns.reopen(turn)
    assert judge_it(turn)
    assert Vote.objects.exists()
    assert Sample.objects.filter(status="ready").count() == 1
    return Turn.objects.select_related("session").get(pk=turn.pk)


def left() -> list[object]:
    return [*Vote.objects.all(), *Hint.objects.all(), *Sample.objects.filter(status="ready")]


@pytest.mark.parametrize("fields", [{"learns": False}, {"session": "off"}])
def test_a_turn_off_the_record_is_judged_without_a_word_of_it(serve, say, judge_it, engine, person, fields):
    if "session" in fields:
        fields = {"session": Session.objects.create(user=person, learns=False)}
    turn = serve(next_state="Thanks.", **fields)
    say(turn, "thumb", value=1)
    say(turn, "guidance", "Use fewer words.")
    assert judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reason, judgement.reason_code) == (Reason.OFF, "off")
    assert (judgement.evidence, judgement.hint, judgement.reward, judgement.teacher) == ("", "", None, {})
    assert engine.calls == []  # no judge read it
    assert left() == []


def test_a_side_request_that_goes_off_the_record_is_judged_again_without_a_word_of_it(serve, say, judge_it):
    turn = serve(next_state="Thanks.", line="side")
    say(turn, "guidance", "Use fewer words.")
    assert judge_it(turn)
    consent.set_turn(turn, False)
    assert judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reason_code, judgement.hint, judgement.evidence) == ("off", "", "")


@pytest.mark.parametrize("fields", [{"line": "side"}, {"finish_reason": "length"}, {"finish_reason": "abort"}])
def test_a_verdict_that_cannot_teach_keeps_a_correction_without_what_is_personal(serve, say, judge_it, fields):
    turn = serve(next_state="Thanks.", **fields)
    say(turn, "guidance", "Write to ana@example.com.")
    assert judge_it(turn)
    assert Judgement.objects.get(turn=turn).hint == "Write to [email 1]."


def test_going_off_the_record_takes_everything_back_before_any_worker_wakes(judged):
    taken = consent.set_session(judged.session, False)
    assert (taken.waiting, taken.learning, taken.learned) == (1, 0, 0)
    assert left() == []
    judgement = Judgement.objects.get()
    assert (judgement.evidence, judgement.hint, judgement.reason_code) == ("", "", "off")


def test_the_verdict_that_follows_says_no_more(judged, judge_it):
    consent.set_session(judged.session, False)
    assert judge_it(judged)
    assert Judgement.objects.get().reason == Reason.OFF
    assert Turn.objects.get().status == Turn.Status.JUDGED
    assert left() == []


def test_votes_that_were_cast_meanwhile_go_as_well(judged, judge_it):
    consent.set_turn(judged, False)
    Vote.objects.create(turn=judged, question="score", index=0, judge="j", prompt_version="1", raw="I read it all.")
    assert judge_it(judged)
    assert left() == []


def test_back_on_the_record_it_is_learned_from_again(judged, judge_it):
    consent.set_session(judged.session, False)
    judge_it(judged)
    consent.set_session(judged.session, True)
    assert Turn.objects.get().status == Turn.Status.OBSERVED
    assert judge_it(judged)
    assert Sample.objects.filter(status="ready").count() == 1


def test_what_was_learned_is_not_learned_twice_by_going_off_and_on(judged, judge_it):
    Sample.objects.filter(status="ready").update(status="trained")
    consent.set_session(judged.session, False)
    judge_it(judged)
    assert Judgement.objects.get().reason == Reason.WITHDRAWN
    consent.set_session(judged.session, True)
    judge_it(judged)
    assert Judgement.objects.get().reason == Reason.LEARNED
    assert not Sample.objects.filter(status="ready").exists()


def test_what_a_superseded_sample_held_is_gone(judged, say, judge_it):
    say(judged, "thumb", value=-1)
    turns.reopen(judged)
    judge_it(judged)
    stale = Sample.objects.filter(status="stale")
    assert stale.exists()
    assert all((row.prompt_ids, row.response_ids, row.teacher_prompt_ids) == ([], [], None) for row in stale)


def test_a_reviewers_no_keeps_what_the_reviewer_may_want_back(judged, judge_it, person):
    votes = Vote.objects.count()
    ruling = reviews.never_learn(judged, by=person)
    judge_it(judged)
    assert Vote.objects.count() == votes
    undoing.undo(ruling, by=person)
    judge_it(judged)
    assert Sample.objects.filter(status="ready").count() == 1


def test_a_person_cannot_undo_a_reviewers_no(judged, person):
    reviews.never_learn(judged, by=person)
    with pytest.raises(consent.ReviewerSaidNo, match="a reviewer can undo that"):
        consent.set_turn(judged, True)


def test_a_persons_no_stands_beside_a_reviewers(judged, judge_it, person):
    reviews.never_learn(judged, by=person)
    consent.set_session(judged.session, False)
    assert left() == []


def off_by_turn(turn: Turn) -> None:
    consent.set_turn(turn, False)


def off_by_key(turn: Turn) -> None:
    consent.set_key(turn.session.key, False)


def off_by_chat(turn: Turn) -> None:
    consent.set_session(turn.session, False)


@pytest.fixture
def by_key(judged, person):
    """The same turn as one that came through a key."""
    judged.session.key = ApiKey.objects.issue(person, "laptop")[0]
    judged.session.save()
    return judged


@pytest.mark.parametrize("say_no", [off_by_turn, off_by_key, off_by_chat])
def test_a_persons_no_after_a_reviewers_forgets_all_and_outlives_the_reviewers_undo(by_key, judge_it, person, say_no):
    ruling = reviews.never_learn(by_key, by=person)
    judge_it(by_key)
    say_no(by_key)
    assert left() == []
    assert Judgement.objects.get().evidence == ""
    undoing.undo(ruling, by=person)
    judge_it(by_key)
    assert left() == []
    held = Turn.objects.select_related("session").get()
    assert not (held.learns and held.session.learns)


@pytest.mark.parametrize("say_no", [off_by_turn, off_by_key])
def test_once_the_reviewer_has_undone_it_the_person_may_say_yes_again(by_key, judge_it, person, say_no):
    ruling = reviews.never_learn(by_key, by=person)
    say_no(by_key)
    undoing.undo(ruling, by=person)
    consent.set_turn(by_key, True)
    judge_it(by_key)
    assert Turn.objects.get().learns
    assert Sample.objects.filter(status="ready").count() == 1


def test_after_a_persons_no_a_reviewers_has_nothing_left_to_take_out(judged, person):
    consent.set_turn(judged, False)
    with pytest.raises(decisions.NotPossible, match="off the record already"):
        reviews.never_learn(judged, by=person)
    consent.set_turn(judged, True)
    assert Turn.objects.get().learns
