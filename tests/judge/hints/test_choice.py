"""Which of several wordings a turn learns from, with the numbers worked out, and what a reviewer is told of it."""

from __future__ import annotations

import pytest

from judge.hints import choice
from judge.hints.choice import Measured
from judge.models import Judgement
from judge.votes import evidence
from training.config import Recipe

OPD = Recipe(w_rl=0)
TELL = "Does what came back say"
MILD, HARSH = "Think about the sum.", "Say the number four."


@pytest.fixture
def proposed(engine):
    """Two of three judges propose a hint, each in words of its own."""
    for hint in (HARSH, MILD):
        engine.says(rf"\boxed{{1}} [HINT_START]{hint}[HINT_END]", to=TELL)
    engine.says(r"\boxed{-1}", to=TELL)


def under(engine, prompt_ids):
    """The hint that this prompt holds; empty for the prompt that was served."""
    prompt = engine.tokenizer.decode(list(prompt_ids))
    return next((hint for hint in (MILD, HARSH) if hint in prompt), "")


def test_of_two_that_move_the_teacher_the_one_that_the_model_can_reach_is_learned(proposed, serve, judge_it, engine):
    moved, shift = {"": -1.0, MILD: -2.0, HARSH: -2.5}, {"": 0, MILD: 1, HARSH: 3}
    engine.logprobs = lambda prompt, ids, adapter: [moved[under(engine, prompt)]] * len(ids)
    engine.likely = lambda prompt, ids, adapter: [
        [id + shift[under(engine, prompt)] + n for n in range(choice.TOP)] for id in ids
    ]
    turn = serve(next_state="No, four.")
    judge_it(turn, OPD)

    hint = turn.hints.get()
    # gains |-2.0 - -1.0| and |-2.5 - -1.0|: 1.0 is more than half of 1.5. Of four neighbours a shift by one leaves
    # three and a shift by three leaves one.
    assert (hint.text, hint.gain) == (MILD, pytest.approx(1.0))
    assert "75% of the 4 tokens" in hint.teacher["choice"]
    assert "(others: 25%)" in hint.teacher["choice"]
    assert len(engine.asked("score")) == 3  # the served prompt, and one for each wording


def test_what_was_accepted_in_the_end_says_which_wording_is_better(proposed, serve, judge_it, engine, renderer):
    turn = serve(next_state="No, four.")
    taken = serve(request="No, four.", reply="It is four.", follows=turn, status="judged")
    Judgement.objects.create(turn=taken, reward=1)
    wanted = renderer.reply_ids(turn.messages, "It is four.")
    raised = {"": -3.0, MILD: -2.5, HARSH: -0.5}  # of the better reply; of the served one both say the same
    engine.logprobs = lambda prompt, ids, adapter: (
        [raised[under(engine, prompt)]] * len(ids)
        if list(ids) == wanted
        else [-1.5 if under(engine, prompt) else -1.0] * len(ids)
    )
    judge_it(turn, OPD)

    hint = turn.hints.get()
    assert hint.text == HARSH
    assert "by 2.50 nats per token (others: 0.50)" in hint.teacher["choice"]  # -0.5 - -3.0, and -2.5 - -3.0
    assert len(engine.asked("score")) == 6  # two replies, each under the served prompt and under both wordings


def test_a_reply_that_was_sent_back_too_is_no_better_and_the_one_taken_after_it_is(serve):
    turn = serve()
    seen = evidence.of(turn)
    second = serve(reply="Two and two are six.", follows=turn, status="judged")
    assert choice.better_reply(turn, seen) == ""  # it was not judged
    judged = Judgement.objects.create(turn=second, reward=-1)
    third = serve(reply="It is four.", follows=second, status="judged")
    Judgement.objects.create(turn=third, reward=1)
    assert choice.better_reply(turn, seen) == "It is four."
    judged.reward = 0
    judged.save()
    assert choice.better_reply(turn, evidence.of(turn)) == ""  # it is not clear that the two are of one wish


def test_a_reply_to_an_edited_message_is_no_better_reply_and_the_last_try_at_one_is(serve):
    turn = serve()
    asked = {"follows": turn, "status": "judged"}
    for reply, chain in (("It is six.", "sent"), ("It is four.", "sent"), ("Paris.", "edited")):
        Judgement.objects.create(turn=serve(reply=reply, request_chain=chain, **asked), reward=1)
    assert choice.better_reply(turn, evidence.of(turn)) == "It is four."


def test_a_wording_that_changes_nothing_is_not_chosen_for_agreeing_with_the_model():
    measured = {"a": Measured(0.49, overlap=1.0), "b": Measured(1.0, overlap=0.2), "c": Measured(0.5, overlap=0.3)}
    assert choice.best(measured, ["a", "b", "c"]) == "c"  # half of 1.0 is enough, 0.49 is not
    assert choice.why(measured, ["a", "b", "c"], "c").endswith("(others: changes too little, 20%).")


def test_where_all_move_the_wrong_way_or_no_likely_tokens_are_named_the_gain_chooses():
    backwards = {"a": Measured(-1.0, overlap=1.0), "b": Measured(-0.5, overlap=0.1)}
    assert choice.best(backwards, ["a", "b"]) == "b"
    nameless = {"a": Measured(2.0), "b": Measured(1.0, overlap=1.0)}
    assert choice.best(nameless, ["a", "b"]) == "a"
    assert "moves the teacher most: by 2.00 nats per token (others: 1.00)" in choice.why(nameless, ["a", "b"], "a")


def test_one_wording_is_no_choice():
    assert choice.why({"a": Measured(1.0)}, ["a", "a"], "a") == ""


def test_overlap_of_replies_that_are_not_as_long_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        choice.overlap((((1, -0.1),), ((2, -0.1),)), (((1, -0.1),),))
