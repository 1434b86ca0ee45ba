"""What people decided of hints, and what new evidence makes of that."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chat.models import Turn
from judge.hints import acceptance, plans, reviews, undoing
from judge.models import Judgement, Ruling
from judge.samples.sample_rows import Reason
from tests.judge.hints.voted_hints import OPD, TELL, only, yes
from training.config import Recipe
from training.models import Sample

SHORT, LISTS = "Answer in one short sentence.", "Use a bullet list."


def test_an_accepted_hint_supersedes_the_sample_of_the_reward_alone(hear, ben, again):
    acceptance.accept_from("user", None, by=ben)
    turn = hear(SHORT, recipe=Recipe())
    alone = turn.judgement.sample
    reviews.accept(only(turn), by=ben)
    judgement = again(turn, Recipe())
    alone.refresh_from_db()
    assert (alone.status, judgement.sample.reward, judgement.sample.has_teacher) == ("stale", -1, True)
    assert (judgement.hint, judgement.hint_from, judgement.reason) == (SHORT, "votes", "")
    assert Sample.objects.filter(status="ready").count() == 1


def test_a_reviewers_words_are_what_the_teacher_is_shown(hear, ben, again, engine):
    turn = hear(SHORT)
    reviews.edit(only(turn), "One sentence, and no greeting.", by=ben)
    engine.calls.clear()
    judgement = again(turn)
    assert (judgement.hint, judgement.hint_from) == ("One sentence, and no greeting.", "reviewer")
    assert "One sentence, and no greeting." in engine.asked("score")[-1].prompt
    assert engine.asked("generate") == []  # the votes were cast already
    assert only(turn).teacher["logprobs"] == judgement.teacher["logprobs"]


def test_a_rejected_hint_is_not_proposed_again_from_the_same_words(hear, ben, again, serve):
    turn = hear(SHORT)
    reviews.reject(only(turn), by=ben)
    judgement = again(turn)
    assert (judgement.sample, judgement.reason) == (None, Reason.HINT_REJECTED)
    assert only(turn).status == "rejected"


def test_undoing_a_rejection_teaches_again(hear, ben, again):
    turn = hear(SHORT)
    ruling = reviews.reject(only(turn), by=ben)
    again(turn)
    undoing.undo(ruling, by=ben)
    assert again(turn).hint == SHORT


def test_undoing_what_the_policy_accepted_has_it_wait(hear, ben, again):
    turn = hear(SHORT)
    undoing.undo(Ruling.objects.get(), by=ben)
    judgement = again(turn)
    assert (only(turn).status, judgement.hint, judgement.reason) == ("waiting", "", Reason.HINT_WAITS)


def test_an_overturned_reward_is_the_reward_whatever_was_said(serve, say, judge_it, ben, again):
    turn = serve()
    say(turn, "thumb", value=-1)
    judge_it(turn)
    ruling = reviews.overturn(turn, 1, by=ben, reason="They meant another reply.")
    judgement = again(turn, Recipe())
    assert (judgement.reward, judgement.reward_from, judgement.sample.reward) == (1, "reviewer", 1)
    undoing.undo(ruling, by=ben)
    judgement = again(turn, Recipe())
    assert (judgement.reward, judgement.reward_from) == (-1, "thumb")

    reviews.overturn(turn, None, by=ben, reason="It is undecided.")
    judgement = again(turn, Recipe())
    assert (judgement.reward, judgement.sample) == (None, None)


def test_an_overturned_reward_teaches_where_votes_alone_would_not(hear, ben, again, settings):
    settings.JUDGE_TEACHES = False
    turn = hear(SHORT, recipe=Recipe())
    assert turn.judgement.reason == Reason.UNTRUSTED
    reviews.overturn(turn, -1, by=ben, reason="They say that it is wrong.")
    judgement = again(turn, Recipe())
    assert (judgement.sample.reward, judgement.sample.has_teacher) == (-1, False)
    assert judgement.reason == Reason.HINT_WAITS


def test_what_no_person_decided_goes_when_its_evidence_has_changed(hear, say, engine, again, ben):
    acceptance.accept_from("user", None, by=ben)
    turn = hear(SHORT)
    Turn.objects.filter(pk=turn.pk).update(
        next_state=[{"role": "user", "content": "A list!"}], status="observed", observed_at=timezone.now()
    )
    engine.says(yes(LISTS), to=TELL, times=3)
    again(turn)
    old, new = turn.hints.order_by("pk")
    assert (old.status, old.waits_because, old.decided_by) == ("rejected", plans.CHANGED, None)
    assert (new.status, new.text) == ("waiting", LISTS)


@pytest.fixture
def tagged(serve, say, judge_it, engine):
    """A judged turn to which no person replied: its person's thumb and tags are all that three votes make a hint of."""
    engine.says(yes(SHORT), to=TELL, times=3)
    turn = serve()
    say(turn, "thumb", value=-1, tags=["too long"])
    judge_it(turn, OPD)
    return turn


def test_what_judges_make_of_tags_is_no_correction_of_the_persons_and_a_reviewers_no_stands(tagged, ben, again):
    turn = tagged
    assert (only(turn).source, only(turn).status) == ("user", "accepted")
    reviews.reject(only(turn), by=ben)
    judgement = again(turn)
    assert (only(turn).status, judgement.hint, judgement.sample) == ("rejected", "", None)


def test_what_judges_make_of_tags_stands_in_a_reviewers_words(tagged, ben, again):
    turn = tagged
    reviews.edit(only(turn), "One sentence, no more.", by=ben)
    judgement = again(turn)
    assert (only(turn).status, judgement.hint, judgement.hint_from) == ("edited", "One sentence, no more.", "reviewer")


def test_what_a_reviewer_accepted_outlives_new_evidence_but_not_the_persons_own_words(hear, say, engine, again, ben):
    turn = hear(SHORT)
    reviews.edit(only(turn), "One sentence, no more.", by=ben)
    Turn.objects.filter(pk=turn.pk).update(next_state=[{"role": "user", "content": "A list!"}])
    engine.says(yes(LISTS), to=TELL, times=3)
    assert again(turn).hint == "One sentence, no more."
    assert turn.hints.count() == 1

    correction = say(turn, "guidance", "Use at most ten words.")
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    assert again(turn).hint == "Use at most ten words."
    old, own = turn.hints.order_by("pk")
    assert (old.status, old.waits_because, own.status) == ("rejected", plans.SAID, "accepted")

    correction.withdrawn_at = timezone.now()
    correction.save()
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    again(turn)
    own.refresh_from_db()
    assert (own.status, own.waits_because) == ("rejected", plans.WITHDRAWN)


def test_words_that_were_taken_back_and_are_said_again_count_again(serve, say, judge_it, again):
    turn = serve()
    for _ in range(2):
        correction = say(turn, "guidance", "Use fewer words.")
        Turn.objects.filter(pk=turn.pk).update(status="observed")
        assert again(turn).hint == "Use fewer words."
        correction.withdrawn_at = timezone.now()
        correction.save()
        Turn.objects.filter(pk=turn.pk).update(status="observed")
        assert again(turn).sample is None
    assert only(turn).status == "rejected"


def test_a_reviewer_may_prefer_what_was_voted_to_what_the_person_wrote(hear, say, again, ben):
    turn = hear(SHORT)
    say(turn, "guidance", "asdf, as always")
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    assert again(turn).hint == "asdf, as always"
    reviews.accept(turn.hints.get(source="user"), by=ben)
    judgement = again(turn)
    assert judgement.hint == SHORT
    assert not judgement.sample.voted_hint  # a person decided on it


def test_a_thumb_up_afterwards_takes_an_inferred_hint_out(hear, say, again):
    turn = hear(SHORT)
    thumb = say(turn, "thumb", value=1)
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    judgement = again(turn, Recipe())
    assert (judgement.hint, judgement.sample.reward) == ("", 1)
    assert only(turn).waits_because == plans.SATISFIED
    thumb.withdrawn_at = timezone.now()
    thumb.save()
    Turn.objects.filter(pk=turn.pk).update(status="observed")
    assert again(turn).hint == SHORT  # and comes back with it
    assert only(turn).status == "accepted"


def test_a_reviewer_who_decides_while_a_verdict_is_reached_is_not_written_over(hear, ben, judge_it, monkeypatch):
    from judge.samples import teacher

    turn = hear(SHORT)
    reviews.accept(only(turn), by=ben)
    read, done = teacher.read, []

    def meanwhile(*args, **kwargs):
        if not done:
            done.append(reviews.reject(only(turn), by=ben))
        return read(*args, **kwargs)

    monkeypatch.setattr(teacher, "read", meanwhile)
    assert judge_it(turn, OPD)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.hint, judgement.sample, judgement.reason) == ("", None, Reason.HINT_REJECTED)
