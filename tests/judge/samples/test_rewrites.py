"""A reply that a person wrote instead becomes ids to learn, where the recipe learns from it, and goes with its turn."""

from __future__ import annotations

import pytest

from chat.models import Turn
from feedback.models import Feedback
from judge.hints import acceptance, reviews
from judge.models import Hint, Judgement
from judge.samples import sample_rows
from judge.samples.sample_rows import Reason
from privacy import consent
from training.config import Recipe
from training.models import Sample

SUPERVISED = Recipe(w_sft=0.5)
ALONE = Recipe(w_rl=0, w_opd=0, w_sft=1)


@pytest.fixture
def corrected(serve, say, judge_it):
    """The sample of a turn whose reply a person wrote anew, under a recipe."""

    def corrected(words="Four.", recipe=SUPERVISED, **fields):
        turn = serve(**fields)
        say(turn, "rewrite", words)
        judge_it(turn, recipe)
        return Judgement.objects.get(turn=turn).sample

    return corrected


def again(turn: Turn) -> Turn:
    turn = Turn.objects.get(pk=turn.pk)
    if turn.status == Turn.Status.JUDGED:
        turn.move(Turn.Status.OBSERVED)
    return turn


def test_a_rewrite_is_kept_as_the_model_would_have_written_it(corrected, renderer):
    sample = corrected()

    assert renderer.decode(sample.rewrite_ids, controls=True) == "Four.<|im_end|>"
    assert sample.has_teacher  # and the teacher is shown it as well


def test_a_recipe_without_a_weight_for_it_keeps_none(corrected):
    assert corrected(recipe=Recipe()).rewrite_ids is None


def test_a_rewrite_alone_is_a_sample_and_asks_no_judge(corrected, engine):
    sample = corrected(recipe=ALONE, next_state="No, four.")

    assert (sample.reward, sample.has_teacher) == (0, False)
    assert sample.rewrite_ids
    assert not engine.asked("generate")


def test_what_was_written_in_place_of_a_reply_that_was_cut_is_whole_and_learned(corrected, engine):
    sample = corrected(finish_reason="length", next_state="No, four.")

    assert sample.rewrite_ids
    assert sample.has_teacher
    assert not engine.asked("generate")  # and no judge is asked of half a reply


def test_a_thumb_on_a_reply_that_was_cut_rewards_nothing(serve, say, judge_it):
    turn = serve(finish_reason="length")
    say(turn, "thumb", value=-1)  # perhaps for what is missing
    say(turn, "rewrite", "Four.")
    judge_it(turn, SUPERVISED)

    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.reward, judgement.sample.reward) == (-1, 0)  # what was said is kept
    assert judgement.reason == Reason.TRUNCATED


def test_where_no_words_are_learned_a_reply_that_was_cut_stays_out(corrected):
    assert corrected(recipe=Recipe(w_opd=0), finish_reason="length") is None


def test_a_rewrite_of_a_cut_reply_that_a_reviewer_refused_teaches_nothing(serve, say, judge_it, django_user_model):
    turn = serve(finish_reason="length")
    say(turn, "rewrite", "Four.")
    judge_it(turn, SUPERVISED)
    reviews.reject(turn.hints.get(), by=django_user_model.objects.create_user("ben", is_staff=True))
    judge_it(again(turn), SUPERVISED)

    judgement = Judgement.objects.get(turn=turn)
    assert (judgement.sample, judgement.reason) == (None, Reason.HINT_REJECTED)


def test_only_what_is_put_aside_is_noted_of_a_reply_that_was_cut(corrected, serve, say, judge_it, person):
    corrected(finish_reason="length")
    assert Judgement.objects.get().reason == ""

    marked = serve(finish_reason="length")
    say(marked, "rewrite", "Four.")
    Feedback.objects.give(marked, by=person, kind="marks", spans=[(0, 3, -1)])
    judge_it(marked, SUPERVISED)
    judgement = Judgement.objects.get(turn=marked)
    assert not judgement.sample.rewards
    assert judgement.reason == Reason.TRUNCATED


def test_a_rewrite_of_a_cut_reply_that_was_taken_back_leaves_the_guidance_beside_it(serve, say, judge_it, person):
    turn = serve(finish_reason="length")
    say(turn, "rewrite", "Four.")
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn, SUPERVISED)
    sample = Judgement.objects.get(turn=turn).sample
    Feedback.objects.withdraw(turn, by=person, kind="rewrite")
    judge_it(again(turn), SUPERVISED)

    assert Sample.objects.get(pk=sample.pk).status == Sample.Status.STALE
    left = Judgement.objects.get(turn=turn)
    assert (left.hint, left.sample.has_teacher, left.sample.rewrite_ids) == ("Use fewer words.", True, None)

    Feedback.objects.withdraw(turn, by=person, kind="guidance")
    judge_it(again(turn), SUPERVISED)
    assert not turn.hints.filter(status__in=(Hint.Status.ACCEPTED, Hint.Status.WAITING)).exists()
    assert Judgement.objects.get(turn=turn).sample is None


def test_guidance_is_no_rewrite(serve, say, judge_it):
    turn = serve()
    say(turn, "guidance", "Use fewer words.")
    judge_it(turn, SUPERVISED)
    assert Judgement.objects.get(turn=turn).sample.rewrite_ids is None


def test_what_a_reviewer_refused_or_put_in_other_words_is_not_learned_by_heart(serve, say, judge_it, django_user_model):
    ben = django_user_model.objects.create_user("ben", is_staff=True)
    for decide in (
        lambda hint: reviews.reject(hint, by=ben),
        lambda hint: reviews.edit(hint, "Say the number in a word.", by=ben),
    ):
        turn = serve()
        say(turn, "rewrite", "Four.")
        judge_it(turn, SUPERVISED)
        decide(turn.hints.get())
        judge_it(again(turn), SUPERVISED)
        sample = Judgement.objects.get(turn=turn).sample
        assert sample is None or sample.rewrite_ids is None


def test_words_that_wait_for_a_person_wait_with_their_rewrite(serve, say, judge_it, django_user_model):
    ben = django_user_model.objects.create_user("ben", is_staff=True)
    acceptance.accept_from("person", None, by=ben)
    turn = serve()
    say(turn, "rewrite", "Four.")
    judge_it(turn, SUPERVISED)
    assert Judgement.objects.get().sample is None

    reviews.accept(turn.hints.get(), by=ben)
    judge_it(again(turn), SUPERVISED)
    assert Judgement.objects.get().sample.rewrite_ids


def test_other_words_take_the_place_of_the_first(serve, say, judge_it, renderer):
    turn = serve()
    first = say(turn, "rewrite", "Four.")
    judge_it(turn, ALONE)
    first.withdrawn_at = first.created_at
    first.save()
    say(turn, "rewrite", "It is four.")
    judge_it(again(turn), ALONE)

    sample = Judgement.objects.get().sample
    assert renderer.decode(sample.rewrite_ids) == "It is four."
    superseded = Sample.objects.get(status="stale")
    assert (superseded.rewrite_ids, superseded.prompt_ids) == (None, [])


# What is personal


def test_personal_data_in_a_rewrite_is_not_learned_by_heart(corrected, renderer):
    sample = corrected("Write to ana@example.com.")

    assert sample.rewrite_ids is None
    assert sample.has_teacher
    assert "ana@" not in renderer.decode(sample.teacher_prompt_ids)


def test_a_rewrite_with_personal_data_and_nothing_else_teaches_nothing_and_says_why(corrected):
    assert corrected("Write to ana@example.com.", recipe=ALONE) is None
    judgement = Judgement.objects.get()
    assert judgement.reason_code == Reason.PERSONAL.code
    assert "personal data" in judgement.reason


def test_personal_data_elsewhere_leaves_the_rewrite_as_it_was(corrected, renderer):
    sample = corrected("Four.", request="I am ana@example.com. What is 2 and 2?")

    assert "ana@" not in renderer.decode(sample.prompt_ids)
    assert renderer.decode(sample.rewrite_ids) == "Four."


def test_a_rewrite_that_does_not_fit_is_not_learned(corrected, renderer):
    sample = corrected("Four. " * renderer.context_length, recipe=ALONE)

    assert sample is None
    assert Judgement.objects.get().reason_code == Reason.TOO_LONG.code


# What is taken back


def test_off_the_record_a_waiting_rewrite_goes_with_its_sample(corrected):
    corrected()

    consent.set_turn(Turn.objects.get(), False)

    assert not Sample.objects.exists()


def test_off_the_record_a_learned_rewrite_is_emptied(corrected):
    sample = corrected()
    sample.move(Sample.Status.CLAIMED)
    sample.move(Sample.Status.TRAINED)

    consent.set_turn(Turn.objects.get(), False)

    sample.refresh_from_db()
    assert (sample.rewrite_ids, sample.teacher_prompt_ids, sample.response_ids) == (None, None, [])


def test_nothing_of_what_was_said_is_left_out_of_what_is_emptied():
    said = {"prompt_ids", "response_ids", "mask", "rewards", "teacher_prompt_ids", "rewrite_ids"}
    lists = {field.name for field in Sample._meta.fields if field.get_internal_type() == "JSONField"}

    assert said <= sample_rows.NOTHING.keys()
    whose = {"person", "conversation"}
    assert lists - {"redactions"} | whose == sample_rows.NOTHING.keys()  # redactions say kinds and counts, and no word
