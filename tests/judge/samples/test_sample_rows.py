"""The table of signals, and what may stand for an earlier sample."""

from __future__ import annotations

import pytest

from judge.samples import sample_rows
from judge.samples.teacher import HintedReply
from training.config import Recipe

LESSON = HintedReply("Be brief.", (5, 6), (-1.0,))


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe(), (-1, ("h",))),
        (Recipe(w_opd=0), (-1, ())),
        (Recipe(w_rl=0), (0, ("h",))),
    ],
)
def test_a_recipe_takes_the_signals_it_has_a_weight_for(recipe, expected):
    assert sample_rows.signals(-1, ("h",), recipe) == expected
    assert sample_rows.signals(None, (), recipe) == (0, ())


@pytest.mark.parametrize(("reward", "lesson", "has_teacher"), [(1, LESSON, True), (0, LESSON, True), (-1, None, False)])
def test_a_sample_carries_the_signals_there_are(serve, reward, lesson, has_teacher):
    turn = serve()
    sample = sample_rows.drafted(turn, reward, lesson, [-0.1] * len(turn.response_ids))
    assert (sample.reward, sample.has_teacher) == (reward, has_teacher)


def test_a_sample_says_whose_it_is_and_of_which_conversation_until_it_is_emptied(serve):
    turn = serve()
    sample = sample_rows.drafted(turn, 1, None, [-0.1] * len(turn.response_ids))
    assert (sample.person, sample.conversation) == (str(turn.session.user_id), turn.session_id)
    assert (sample_rows.NOTHING["person"], sample_rows.NOTHING["conversation"]) == ("", None)


def test_a_sample_without_a_signal_is_refused(serve):
    turn = serve()
    with pytest.raises(ValueError, match="without a signal"):
        sample_rows.drafted(turn, 0, None, [-0.1] * len(turn.response_ids))


def test_a_log_prob_too_few_is_refused(serve):
    turn = serve()
    with pytest.raises(ValueError, match="behaviour_logprobs for"):
        sample_rows.drafted(turn, 1, None, [-0.1] * (len(turn.response_ids) - 1))
