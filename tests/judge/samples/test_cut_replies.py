"""A reply that was cut at its length limit learns what a person asked for, and neither a reward nor its end."""

from __future__ import annotations

import pytest

from chat.models import Turn
from judge.hints import acceptance, reviews
from judge.models import Hint, Judgement
from judge.samples.sample_rows import Reason
from tests.judge.votes_said import TELL, YES
from training.config import Recipe


@pytest.fixture
def cut(serve, renderer):
    """A reply that was cut: its last id is a word's, and no end of the turn."""

    def cut(next_state="", reply="Two and two are five, and"):
        return serve(reply=reply, response_ids=renderer.encode(reply), finish_reason="length", next_state=next_state)

    return cut


def judgement_of(turn: Turn) -> Judgement:
    return Judgement.objects.select_related("sample").get(turn=turn)


def test_guidance_on_a_cut_reply_teaches_over_the_tokens_that_were_served(cut, say, judge_it, renderer, engine):
    turn = cut()
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)

    sample = judgement_of(turn).sample
    assert "(Guidance: Use fewer words.)" in renderer.decode(sample.teacher_prompt_ids, controls=True)
    assert sample.response_ids == turn.response_ids  # nothing is added: no end that was not written
    assert "<|im_end|>" not in renderer.decode(sample.response_ids, controls=True)
    assert (sample.reward, judgement_of(turn).reason) == (0, "")
    assert not engine.asked("generate")


@pytest.mark.parametrize("value", [1, -1])
def test_a_thumb_on_a_cut_reply_rewards_nothing_while_the_guidance_beside_it_teaches(cut, say, judge_it, value):
    turn = cut()
    say(turn, "thumb", value=value)
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn)

    judgement = judgement_of(turn)
    assert (judgement.reward, judgement.sample.reward, judgement.sample.has_teacher) == (value, 0, True)
    assert judgement.reason == Reason.TRUNCATED  # the thumb was put aside, and that is said


def test_a_thumb_alone_on_a_cut_reply_teaches_nothing_and_says_why(cut, say, judge_it):
    turn = cut()
    say(turn, "thumb", value=1)
    judge_it(turn)
    assert (judgement_of(turn).sample, judgement_of(turn).reason) == (None, Reason.TRUNCATED)


def test_no_judge_scores_a_cut_reply_and_the_hint_that_a_person_accepts_teaches(
    cut, judge_it, engine, django_user_model
):
    ben = django_user_model.objects.create_user("ben", is_staff=True)
    acceptance.accept_from("user", None, by=ben)  # so that the hint waits
    engine.says(YES, to=TELL, times=3)
    turn = cut(next_state="Fewer words.")
    judge_it(turn)
    assert (judgement_of(turn).sample, judgement_of(turn).reason) == (None, Reason.HINT_WAITS)
    assert {vote.question for vote in turn.votes.all()} == {"hint"}

    reviews.accept(turn.hints.get(), by=ben)
    judge_it(turn)  # accepting it opened the verdict again

    sample = judgement_of(turn).sample
    assert (sample.reward, sample.has_teacher) == (0, True)
    assert turn.hints.get().status == Hint.Status.ACCEPTED


def test_a_recipe_that_learns_rewards_alone_makes_nothing_of_guidance_on_a_cut_reply(cut, say, judge_it):
    turn = cut()
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn, Recipe(w_opd=0))
    assert (judgement_of(turn).sample, judgement_of(turn).reason) == (None, Reason.TRUNCATED)
    assert judgement_of(turn).hint == "Use fewer words."  # what was said is kept


def test_a_cut_reply_on_which_no_judge_finds_a_hint_says_that_it_was_cut(cut, judge_it, engine):
    engine.says(r"\boxed{-1}", to=TELL, times=3)
    turn = cut(next_state="Thanks.")
    judge_it(turn)
    assert (judgement_of(turn).sample, judgement_of(turn).reason) == (None, Reason.TRUNCATED)
