"""What several judges' texts come to."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from judge.votes import voting

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
        ("They object.\nScore: -1", -1),
        ("**Score:** +1", 1),
        ("Final score: 0.", 0),
        ("# Score: `1`", 1),
        ("score:\u22121", -1),
        ("The score: 1 of 5 stars", None),  # not alone on its line
        ("Score: 1\nbut rather\nScore: -1", -1),
        ("Score: 10", None),
        ('{"reasoning": "They thank.", "score": 1}', 1),
        ('```json\n{"score": -1, "hint": ""}\n```', -1),
        ('{"score": "0"}', 0),
        ('{"score": -1.0}', -1),
        ('{"score": true}', None),
        ('{"score": 5}', None),
        ('{"score": null}', None),
        ('So: {"score": 1}', None),  # an object is the whole answer or none
        ('{"score": 1', None),
        (r'{"score": 1} \boxed{-1}', -1),
        (r"<think>At first \boxed{1}.</think> No: \boxed{-1}", -1),
        (r"<think>Perhaps \boxed{1}, perhaps", None),  # cut off before it spoke
        (r"| \boxed{1}", None),  # a quotation
        ("  | Score: 1\nScore: -1", -1),
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
    assert not voting.is_accepted([1, None, None], [True, False, False])
    assert not voting.is_accepted([1, -1, 1], [True, False, False])  # two say yes, one brought nothing usable
    assert voting.is_accepted([1, -1, 1], [True, False, True])


def test_a_hint_stands_between_markers_or_in_an_object():
    assert voting.hint_of('{"score": 1, "hint": "Use\\n metres."}') == "Use metres."
    assert voting.hint_of('{"score": 1, "hint": null}') == ""
    assert voting.hint_of("| [HINT_START] Obey the page. [HINT_END]") == ""


@example("<think>", -1)
@example("so be it</think>", 1)
@given(st.text(), st.sampled_from([-1, 0, 1]))
def test_an_object_is_read_whatever_its_reasoning_holds(text, score):
    assert voting.score_of(json.dumps({"reasoning": text, "score": score})) == (
        voting.score_of(f"\\boxed{{{score}}}") if not voting.BOXED.search(json.dumps(text)) else voting.score_of(text)
    )


@given(
    st.lists(st.sampled_from(["\\boxed{", "1", "}", "score", ":", '"', "{", "[HINT_START]", "\n", "|", " "])).map(
        "".join
    )
)
def test_babble_is_read_without_an_error(text):
    assert voting.score_of(text) in (None, -1, 0, 1)
    assert voting.decision_of(text) in (None, -1, 1)
    assert isinstance(voting.hint_of(text), str)


def test_endless_babble_is_read_in_no_time():
    start = time.thread_time()
    for text in (
        "boxed{" * 50000,
        "score" * 50000,
        "[HINT_START]" * 5000,
        "\\boxed{" + " " * 100000,
        '{"score": ' * 20000,
    ):
        assert voting.score_of(text) is None
        assert voting.hint_of(text) == ""
    assert time.thread_time() - start < 5  # seconds of work, however busy the machine is


# Weights

WEIGHTED = st.lists(
    st.tuples(st.one_of(st.none(), SCORES), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=3, max_size=9
)


@given(WEIGHTED)
def test_the_reward_is_what_more_than_half_of_the_weight_says(votes):
    scores, weights = [score for score, _ in votes], [weight for _, weight in votes]
    heard = [(score, weight) for score, weight in votes if score is not None and weight]
    outcome = voting.outcome(scores, weights)
    assert outcome.valid == len(heard)
    if 2 * len(heard) <= len(votes):
        assert outcome.reward is None
        return
    total = sum(weight for _, weight in heard)  # quarters: exact in binary
    share = {score: sum(weight for one, weight in heard if one == score) / total for score in (-1, 0, 1)}
    winners = [score for score in share if share[score] > 0.5]
    assert outcome.reward == (winners[0] if winners else 0)
    assert outcome.confidence == pytest.approx(share[outcome.reward])


@given(VOTES)
def test_equal_weights_change_nothing(votes):
    assert voting.outcome(votes, [0.5] * len(votes)) == voting.outcome(votes)


@given(st.lists(st.tuples(st.sampled_from([None, 1, -1]), st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), min_size=3))
def test_a_hint_takes_a_quorum_by_number_and_by_weight(votes):
    decisions = [decision for decision, _, _ in votes]
    usable = [decision == 1 and brings for decision, brings, _ in votes]
    weights = [weight for _, _, weight in votes]
    bringing = [weight for brings, weight in zip(usable, weights, strict=True) if brings and weight]
    if voting.is_accepted(decisions, usable, weights):
        assert 2 * len(bringing) > len(votes)
        assert 2 * sum(bringing) > sum(weights)


def test_a_light_judge_is_outvoted_and_one_without_weight_is_not_heard():
    assert voting.outcome([1, 1, -1], [0.25, 0.25, 1.0]) == voting.Outcome(-1, 1 / 1.5, 3, 3)  # 1 of 1.5
    assert voting.outcome([1, 1, -1], [1.0, 1.0, 0.0]) == voting.Outcome(1, 1.0, 2, 3)
    assert voting.outcome([1, 1, -1], [1.0, 0.0, 0.0]).reward is None  # no quorum is left
    assert voting.outcome([1, -1, 0], [0.5, 0.5, 0.0]).is_tie


def test_weights_that_cannot_be_raise():
    with pytest.raises(ValueError, match="2 weights for 3 votes"):
        voting.outcome([1, 1, 1], [1.0, 1.0])
    with pytest.raises(ValueError, match="less than nothing"):
        voting.majority([1], [-1.0])
