"""What several judges' texts come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge import voting

SCORES = st.sampled_from([-1, 0, 1])
VOTES = st.lists(st.one_of(st.none(), SCORES), min_size=3, max_size=9)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (r"\boxed{1}", 1),
        (r"\boxed{ +1 }", 1),
        (r"\boxed{1.0}", 1),
        (r"\boxed{-1}", -1),
        (r"\boxed{ - 1 }", -1),
        ("\\boxed{\u22121}", -1),  # a typographic minus
        (r"\boxed{0.00}", 0),
        (r"boxed{0}", 0),
        (r"First \boxed{1}, but then again \boxed{-1}.", -1),
        (r"\boxed{-1} \boxed{2}", -1),  # an unreadable one is no vote, the last readable one is
        (r"\boxed{2}", None),
        (r"\boxed{-11}", None),
        (r"\boxed{0.5}", None),
        (r"\boxed{}", None),
        (r"\boxed{yes}", None),
        ("1", None),
        ("", None),
    ],
)
def test_scores_are_read_tolerantly_and_the_last_one_wins(text, score):
    assert voting.score_of(text) == score


def test_a_hint_decision_is_never_zero():
    assert voting.decision_of(r"\boxed{0}") is None
    assert voting.decision_of(r"\boxed{-1}") == -1


def test_the_last_hint_between_markers_counts_and_is_one_line():
    text = "[HINT_START]first[HINT_END] or rather [hint start] Use\n two  sentences. [HINT_END]"
    assert voting.hint_of(text) == "Use two sentences."
    assert voting.hint_of("[HINT_START] never closed") == ""


@given(st.text(), SCORES)
def test_a_score_at_the_end_is_read_whatever_came_before(text, score):
    assert voting.score_of(f"{text}\n\\boxed{{{score}}}") == score


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    assert voting.score_of(text) in (None, -1, 0, 1)
    assert isinstance(voting.hint_of(text), str)


@given(VOTES)
def test_the_reward_is_what_more_than_half_of_the_valid_votes_say(votes):
    valid = [vote for vote in votes if vote is not None]
    outcome = voting.outcome(votes)
    if 2 * len(valid) <= len(votes):
        assert outcome.reward is None
    else:
        winners = [score for score in (-1, 0, 1) if 2 * valid.count(score) > len(valid)]
        assert outcome.reward == (winners[0] if winners else 0)
        assert outcome.confidence == valid.count(outcome.reward) / len(valid)


@given(VOTES)
def test_the_order_of_votes_does_not_matter(votes):
    assert voting.outcome(votes) == voting.outcome(votes[::-1])


@given(VOTES)
def test_a_failed_vote_is_never_a_zero(votes):
    assert voting.majority([*votes, None]) == voting.majority(votes)


def test_two_against_one_win_and_a_tie_is_neutral():
    assert voting.outcome([1, 1, -1]) == voting.Outcome(1, 2 / 3, 3, 3)
    assert voting.outcome([1, -1, None]).reward == 0
    assert voting.outcome([1, -1, None]).is_tie
    assert not voting.outcome([0, 0, 1]).is_tie


def test_a_lone_hint_vote_accepts_nothing():
    assert not voting.is_accepted([1, None, None], usable=1)
    assert not voting.is_accepted([1, -1, 1], usable=1)  # two say yes, one of them brought nothing usable
    assert voting.is_accepted([1, -1, 1], usable=2)
