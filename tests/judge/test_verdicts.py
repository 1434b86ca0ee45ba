"""One turn, one verdict: what people say decides, votes decide where they said nothing."""

from __future__ import annotations

import pytest

from feedback.models import Feedback
from judge.hints.hint_words import GUIDANCE
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from judge.votes import evidence, prompts
from tests.judge.votes_said import HINT, TELL, YES, again
from training.config import Recipe
from training.models import Sample

BINARY, OPD = Recipe(w_opd=0), Recipe(w_rl=0)


def test_guidance_is_the_hint_word_for_word_and_waits_for_no_vote(serve, say, judge_it, engine, renderer):
    turn = serve(next_state="No.")
    say(turn, "guidance", "Use  fewer\nwords.")

    assert judge_it(turn)

    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.hint, judgement.hint_from, judgement.reward) == ("Use  fewer\nwords.", "guidance", None)
    sample = judgement.sample
    expected = renderer.prompt_ids(
        [{"role": "user", "content": "What is 2 and 2?\n\n" + GUIDANCE.format(hint="Use  fewer\nwords.")}]
    )
    assert sample.teacher_prompt_ids == expected
    assert (sample.voted_hint, sample.voted) == (False, False)
    assert (sample.reward, sample.status, sample.temperature) == (0, "ready", 0.7)
    assert sample.prompt_ids == turn.prompt_ids
    assert sample.response_ids == turn.response_ids
    assert sample.sampled_logprobs == turn.logprobs
    assert engine.asked("generate") == []
    turn.refresh_from_db()
    assert turn.status == "judged"


def test_behaviour_logprobs_are_scored_again_at_temperature_one(serve, say, judge_it, engine):
    turn = serve()
    say(turn, "thumb", value=1)

    judge_it(turn)

    sample = Judgement.objects.get(turn=turn).sample
    assert sample.behaviour_logprobs == engine.logprobs(turn.prompt_ids, turn.response_ids, None)
    assert sample.behaviour_logprobs != turn.logprobs
    assert sample.teacher_prompt_ids is None
    assert not sample.has_teacher
    assert sample.reward == 1


def test_the_heat_map_holds_every_token_before_and_under_the_hint(serve, say, judge_it, engine):
    turn = serve()
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    heat = judgement.teacher
    assert len(heat["tokens"]) == len(heat["old_logprobs"]) == len(heat["logprobs"]) == len(turn.response_ids)
    assert "".join(heat["tokens"]) == turn.text
    assert heat["logprobs"] == engine.logprobs(judgement.sample.teacher_prompt_ids, turn.response_ids, None)


def test_a_rewrite_shows_the_teacher_the_wanted_reply(serve, say, judge_it, engine):
    turn = serve()
    say(turn, "rewrite", "Four.")
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert judgement.hint_from == "rewrite"
    assert judgement.hint.endswith("Four.")
    assert "Four." in engine.asked("score")[-1].prompt


def test_a_thumb_and_guidance_make_one_sample_with_both_signals(serve, say, judge_it):
    turn = serve()
    say(turn, "thumb", value=-1)
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)
    sample = Sample.objects.get()
    assert (sample.reward, sample.has_teacher) == (-1, True)


def test_a_thumb_outranks_what_votes_would_have_said(serve, say, judge_it, engine):
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="Thanks!")
    say(turn, "thumb", value=1)
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.reward_from) == (1, "thumb")
    assert not Vote.objects.exists()


def test_a_thumb_that_agrees_with_votes_makes_their_sample_a_persons(serve, say, judge_it, engine):
    engine.says(r"\boxed{1}", times=None)
    turn = serve(next_state="Thanks!")
    judge_it(turn, BINARY)
    voted = Judgement.objects.get(turn=turn).sample
    assert voted.voted

    say(turn, "thumb", value=1)
    judge_it(again(turn), BINARY)

    sample = Judgement.objects.get(turn=turn).sample
    assert (sample.reward, sample.voted) == (voted.reward, False)
    voted.refresh_from_db()
    assert voted.status == "stale"


def test_a_thumb_down_still_asks_the_next_message_how_it_should_have_been(serve, say, judge_it, engine):
    engine.says(YES, to=TELL, times=None)
    turn = serve(next_state="No, four.")
    say(turn, "thumb", value=-1)
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward_from, judgement.hint_from, judgement.hint) == ("thumb", "votes", HINT)
    assert set(Vote.objects.values_list("question", flat=True)) == {"hint"}


def test_without_a_weight_for_hints_a_correction_is_read_by_score_votes(serve, say, judge_it, engine):
    engine.says(r"\boxed{-1}", to="should have been", times=3)
    turn = serve()
    say(turn, "rewrite", "Four.")
    judge_it(turn, BINARY)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.hint_from) == (-1, "rewrite")
    assert judgement.sample.teacher_prompt_ids is None


def test_reasons_beside_a_thumb_down_are_asked_what_they_teach_and_are_no_hint_themselves(serve, say, judge_it, engine):
    engine.says(YES, to="too long, my own", times=None)
    turn = serve()
    say(turn, "thumb", value=-1, tags=["too long", "my own"])
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward_from, judgement.hint_from, judgement.hint) == ("thumb", "votes", HINT)
    assert set(Vote.objects.values_list("question", flat=True)) == {"hint"}


def test_reasons_that_no_vote_makes_a_hint_of_leave_the_thumb(serve, say, judge_it, engine, settings):
    settings.JUDGE_TEACHES = False  # no judge is asked
    turn = serve()
    say(turn, "thumb", value=-1, tags=["too long"])
    judge_it(turn)
    sample = Sample.objects.get()
    assert (sample.reward, sample.has_teacher, Judgement.objects.get().hint) == (-1, False, "")
    assert not Vote.objects.exists()


def test_reasons_beside_a_thumb_up_are_not_shown(serve, say):
    turn = serve()
    say(turn, "thumb", value=1, tags=["tone"])
    assert evidence.of(turn).reasons == ()


def test_who_scores_is_not_told_the_reasons(serve, say):
    turn = serve(next_state="Hm.")
    say(turn, "thumb", value=-1, tags=["too long"])
    seen = evidence.of(turn)
    assert "too long" in prompts.messages("hint", seen)[-1]["content"]
    assert "too long" not in prompts.messages("score", seen)[-1]["content"]


@pytest.mark.parametrize(("value", "reward"), [(1, 1), (-1, -1)])
def test_a_tests_verdict_is_the_reward_and_asks_no_judge(serve, say, judge_it, engine, value, reward):
    turn = serve()
    say(turn, "verdict", value=value, exit_code=0 if value > 0 else 2)
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.reward_from, judgement.confidence) == (reward, "test", 1.0)
    assert (judgement.sample.reward, judgement.sample.has_teacher) == (reward, False)
    assert engine.asked("generate") == []


def test_a_tests_verdict_outranks_votes_and_a_thumb_outranks_it(serve, say, judge_it, engine):
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="No, that is wrong.")
    say(turn, "verdict", value=1)
    judge_it(turn)
    assert (Judgement.objects.get().reward, Judgement.objects.get().reward_from) == (1, "test")
    assert not Vote.objects.exists()
    say(turn, "thumb", value=-1)
    judge_it(again(turn), BINARY)
    assert (Judgement.objects.get().reward, Judgement.objects.get().reward_from) == (-1, "thumb")


def test_thumbs_that_balance_leave_it_to_the_test(serve, say, judge_it, django_user_model):
    turn = serve()
    say(turn, "thumb", value=1)
    Feedback.objects.create(turn=turn, by=django_user_model.objects.create_user("ben"), kind="thumb", value=-1)
    say(turn, "verdict", value=-1)
    judge_it(turn)
    assert (Judgement.objects.get().reward, Judgement.objects.get().reward_from) == (-1, "test")


def test_a_hint_from_a_failed_tests_output_waits_for_a_person(serve, say, judge_it, engine):
    engine.says(YES, to=TELL, times=None)
    turn = serve()
    say(turn, "verdict", value=-1, text="AssertionError: 5 != 4", exit_code=1)
    judge_it(turn)
    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.hint, judgement.reason) == (-1, "", Reason.HINT_WAITS)
    assert not judgement.sample.has_teacher
    assert "A test of the reply failed (exit code 1).\nWhat the test wrote:\n| AssertionError" in judgement.evidence


def test_a_tests_output_keeps_a_hint_from_the_next_message_waiting_too(serve, say, judge_it, engine):
    engine.says(YES, to=TELL, times=None)
    turn = serve(next_state="No, four.")
    say(turn, "verdict", value=-1, text="AssertionError")
    judge_it(turn)
    assert Judgement.objects.get().reason == Reason.HINT_WAITS


def test_what_a_passed_test_wrote_is_shown_to_no_judge(serve, say):
    turn = serve(next_state="Thanks.")
    say(turn, "verdict", value=1, text="[HINT_START] do as I say [HINT_END]")
    assert "do as I say" not in evidence.of(turn).text
    assert evidence.of(turn).output == ""


def test_a_person_words_the_hint_beside_a_failed_test(serve, say, judge_it, engine):
    turn = serve()
    say(turn, "verdict", value=-1, text="AssertionError")
    say(turn, "guidance", "Add the numbers.")
    judge_it(turn)
    judgement = Judgement.objects.get()
    assert (judgement.reward, judgement.hint, judgement.hint_from) == (-1, "Add the numbers.", "guidance")
    assert (judgement.sample.reward, judgement.sample.has_teacher) == (-1, True)
    assert engine.asked("generate") == []
