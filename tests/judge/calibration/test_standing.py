"""A judge that is wrong too often counts less, or stops; an operator has the last word."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from hypothesis import given
from hypothesis import strategies as st

from judge.calibration import vote_floor
from judge.calibration.agreement import Reading, agreement
from judge.calibration.vote_floor import OverrulingRefused
from judge.models import GoldReading, Judgement, Ruling, Vote
from tests.judge.calibration.test_agreement import NOON, readings


@pytest.fixture(autouse=True)
def fresh():
    vote_floor.forget()
    yield
    vote_floor.forget()


@pytest.fixture
def operator(db):
    return get_user_model().objects.create_user("olga", is_staff=True)


@pytest.fixture
def read_gold(db):
    """Gold readings of which so many are right."""

    def read_gold(right: int, wrong: int, judge="small", version="cases-1", silent: int = 0) -> None:
        said = [1] * right + [-1] * wrong + [None] * silent
        GoldReading.objects.bulk_create(
            GoldReading(
                item=f"g{n}", gold="d", judge=judge, prompt_version=version, role="user", expected=1, score=score
            )
            for n, score in enumerate(said)
        )

    return read_gold


@pytest.mark.parametrize(
    ("right", "wrong", "weight"),
    [
        (29, 0, 0.0),  # too few to say
        (0, 30, 0.0),
        (
            60,
            40,
            0.0081,
        ),  # low: (0.6 + 0.019208 − 1.96 · √(0.0024 + 0.00009604)) / 1.038416 = 0.50202; (low − 0.5) / 0.25
        (75, 25, 0.628),  # low: (0.769208 − 1.96 · √(0.001875 + 0.00009604)) / 1.038416 = 0.65696
        (90, 10, 1.0),  # low: 0.8256
    ],
)
def test_the_rule(right, wrong, weight, as_shipped):
    seen = agreement(readings(*[(1, 1)] * right, *[(1, -1)] * wrong))
    assert vote_floor.weighed(seen) == pytest.approx(weight, abs=2e-4)


@given(st.integers(30, 200), st.integers(0, 200))
def test_a_judge_that_is_right_once_more_never_counts_less(measured, right):
    right = min(right, measured - 1)

    def weight(right: int) -> float:
        return vote_floor.weighed(agreement(readings(*[(1, 1)] * right, *[(1, 0)] * (measured - right))))

    assert 0 <= weight(right) <= weight(right + 1) <= 1


def test_a_judge_that_was_not_measured_counts_for_nothing_and_that_is_said(db, as_shipped):
    found = vote_floor.standing("unknown", "cases-1")
    assert (found.weight, found.is_unknown, found.has_stopped) == (0, True, False)
    assert found.sentence == "Not measured yet: it votes and counts for nothing. Measure it now."


def test_a_poor_judge_stops_for_its_version_of_the_prompts_only(read_gold):
    read_gold(right=10, wrong=30)
    assert vote_floor.weight("small", "cases-1") == 0
    assert "it has stopped" in vote_floor.standing("small", "cases-1").sentence
    assert vote_floor.weight("small", "cases-2") == 1
    assert vote_floor.weight("large", "cases-1") == 1


def test_what_could_not_be_read_counts_as_wrong(read_gold):
    read_gold(right=20, wrong=0, silent=20)
    assert vote_floor.standing("small", "cases-1").measured.accuracy == 0.5
    assert vote_floor.weight("small", "cases-1") == 0


def test_only_the_newest_reading_of_an_item_counts(read_gold):
    read_gold(right=0, wrong=40)
    read_gold(right=40, wrong=0)
    found = vote_floor.standing("small", "cases-1")
    assert (found.measured.measured, found.measured.accuracy, found.weight) == (40, 1.0, 1.0)


@pytest.fixture
def thumbed(serve):
    """A turn that a thumb decided, and the votes of one judge on it."""

    def thumbed(reward: int, *scores: int | None, reward_from="thumb", failure="unreadable", judge="small"):
        turn = serve(next_state="Well.", status="judged")
        Judgement.objects.create(turn=turn, reward=reward, reward_from=reward_from)
        for index, score in enumerate(scores):
            Vote.objects.create(
                turn=turn, question="score", index=index, judge=judge, prompt_version="cases-1", role="user",
                score=score, failure="" if score is not None else failure,
            )  # fmt: skip
        return turn

    return thumbed


def test_the_yardstick_is_a_persons_thumb(thumbed):
    thumbed(1, 1, 1, -1)  # the majority is right
    thumbed(-1, 1, 1, 1)  # wrong
    thumbed(1, 1, None, None)  # too few could be read
    thumbed(1, None, None, None, failure="unreachable: not there")  # no judge was asked
    thumbed(1, None, None, None, failure="too late: no answer within 60 s")  # no judge was heard
    thumbed(1, -1, -1, -1, reward_from="votes")  # its own votes decided: no yardstick
    thumbed(1, 1, 1, 1, judge="large")
    found = vote_floor.thumb_readings("small", "cases-1")
    assert [(reading.expected, reading.said, reading.role) for reading in found] == [
        (1, 1, "user"),
        (-1, 1, "user"),
        (1, None, "user"),
    ]


def test_a_vote_that_was_asked_for_again_counts_once(thumbed):
    turn = thumbed(1, None, 1, None)
    for index in (0, 2):
        Vote.objects.create(
            turn=turn, question="score", index=index, judge="small", prompt_version="cases-1", score=1, role="user"
        )
    (found,) = vote_floor.thumb_readings("small", "cases-1")
    assert found.said == 1


def test_gold_and_thumbs_are_measured_together(read_gold, thumbed):
    read_gold(right=29, wrong=0)
    assert vote_floor.standing("small", "cases-1").measured.measured == 29
    thumbed(1, 1, 1, 1)
    assert vote_floor.standing("small", "cases-1").measured.measured == 30


def test_an_operators_word_stands_until_it_is_given_back_to_the_rule(read_gold, operator):
    read_gold(right=10, wrong=30)
    assert vote_floor.weight("small", "cases-1") == 0

    vote_floor.overrule("small", "cases-1", 0.5, by=operator, reason="The gold set is not our domain.")
    assert vote_floor.weight("small", "cases-1") == 0.5
    found = vote_floor.standing("small", "cases-1")
    assert found.sentence == "olga set it to 0.5: The gold set is not our domain."
    assert found.by_rule == 0

    vote_floor.overrule("small", "cases-1", None, by=operator, reason="Measured anew.")
    assert vote_floor.weight("small", "cases-1") == 0
    first, second = Ruling.objects.order_by("pk")
    assert (first.verb, first.by, first.before["weight"], first.after["weight"]) == ("policy", operator, None, 0.5)
    assert (second.before["weight"], second.after["weight"]) == (0.5, None)


@pytest.mark.parametrize(("weight", "reason"), [(1.5, "more"), (-0.1, "less"), (float("nan"), "what"), (1, "  ")])
def test_an_overruling_needs_a_weight_and_a_reason(operator, weight, reason):
    with pytest.raises(OverrulingRefused):
        vote_floor.overrule("small", "cases-1", weight, by=operator, reason=reason)
    assert not Ruling.objects.exists()


def test_a_weight_is_kept_for_a_moment(read_gold, django_assert_num_queries):
    assert vote_floor.weight("small", "cases-1") == 1
    read_gold(right=0, wrong=40)
    with django_assert_num_queries(0):
        assert vote_floor.weight("small", "cases-1") == 1
    vote_floor.forget()
    assert vote_floor.weight("small", "cases-1") == 0


def test_only_so_many_thumbs_count(thumbed, monkeypatch):
    monkeypatch.setattr(vote_floor, "THUMBS", 2)
    for said in (-1, 1, 1):
        thumbed(1, said, said, said)
    assert [reading.said for reading in vote_floor.thumb_readings("small", "cases-1")] == [1, 1]


def test_readings_know_when_they_were_made(read_gold):
    read_gold(right=1, wrong=0)
    (found,) = vote_floor.gold_readings("small", "cases-1")
    assert found == Reading(1, 1, "user", found.at)
    assert found.at > NOON.replace(year=2020)
