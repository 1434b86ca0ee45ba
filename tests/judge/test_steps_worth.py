"""Votes on steps are worth what they proved to be in this world: 2 · the lower end of their balanced accuracy − 1."""

from __future__ import annotations

from collections import Counter

import pytest

from judge import steps_worth
from judge.calibration import measuring
from judge.models import Judgement, Vote
from judge.steps_worth import Checks, weigh
from judge.votes import evidence, judges
from tests.played_steps import samples_of, stop, turns_of
from training import hours

pytestmark = pytest.mark.django_db


def checks(good: tuple[int, int], bad: tuple[int, int], abstained: int = 0) -> Checks:
    """(right, of) on good steps and on bad ones."""
    (up, ups), (down, downs) = good, bad
    counts = {(1, 1): up, (1, -1): ups - up, (-1, -1): down, (-1, 1): downs - down, (1, None): abstained, (1, 0): 1}
    return Checks(Counter(counts))


@pytest.mark.parametrize(
    ("good", "bad", "accuracy", "low", "worth"),
    [
        # rates 0.9 and 0.9; Wilson lows 0.7985 (54/60) and 0.7695 (36/40); 0.9 − √(0.1015² + 0.1305²) / 2 = 0.8173
        ((54, 60), (36, 40), 0.9, 0.8173, 0.6347),
        # 0.95 and 0.95; lows 0.8882 each: 0.95 − √(2 · 0.0618²) / 2 = 0.9063
        ((95, 100), (95, 100), 0.95, 0.9063, 0.8127),
        # 0.8667 and 0.9; lows 0.7583 and 0.7695: 0.8833 − √(0.1084² + 0.1305²) / 2 = 0.7985, just below the floor
        ((52, 60), (36, 40), 0.8833, 0.7985, 0.0),
        # "always good" on 88 % good steps looks right in 88 of 100, and is a coin: 0.5 − (1 − 0.9582) / 2
        ((88, 88), (0, 12), 0.5, 0.4791, 0.0),
        # 99 calls are too few, however right; lows 0.9398 and 0.9103: 1 − √(0.0602² + 0.0897²) / 2
        ((60, 60), (39, 39), 1.0, 0.946, 0.0),
    ],
)
def test_a_vote_is_worth_twice_the_lower_end_of_the_balanced_accuracy_minus_one(good, bad, accuracy, low, worth):
    found = checks(good, bad)
    assert (round(found.accuracy, 4), round(found.low, 4), weigh(found)) == (accuracy, low, worth)


def test_an_abstention_is_no_call_and_one_side_alone_says_nothing():
    assert checks((54, 60), (36, 40), abstained=50).calls == 100
    assert checks((100, 100), (0, 0)).accuracy is None
    assert weigh(checks((200, 200), (0, 0))) == 0


@pytest.fixture
def measured(play, judge_all, engine, renderer):
    """A world in which votes of the judge were checked on so many good and bad steps, of which so many right."""

    def measured(good=(54, 60), bad=(36, 40)):
        signs, checked = [1] * good[1] + [-1] * bad[1], []
        for start in range(0, len(signs), 10):
            known = signs[start : start + 10]
            episode = play(len(known) + 1)
            *turns, _ = turns_of(episode)
            stop(episode, scores={turn.completion_id: sign for turn, sign in zip(turns, known, strict=True)})
            judge_all(episode)
            checked += turns
        said = [1] * good[0] + [-1] * (good[1] - good[0]) + [-1] * bad[0] + [1] * (bad[1] - bad[0])
        who = judges.judge()
        Vote.objects.bulk_create(
            Vote(
                turn=turn, question="score", index=n, judge=who.name, prompt_version=who.version, score=score,
                evidence=evidence.of(turn).digest,
            )
            for turn, score in zip(checked, said, strict=True)
            for n in range(3)
        )  # fmt: skip
        steps_worth.forget()

    return measured


def test_votes_that_proved_right_count_what_they_are_worth(measured, play, judge_all, engine):
    measured()
    assert (found := steps_worth.of("till", judges.judge())).n == 100
    assert (round(found.low, 4), found.worth) == (0.8173, 0.6347)
    assert found.sentence == (
        "On 100 steps of till their balanced accuracy is 0.90, at least 0.82: a vote counts 0.63."
    )
    engine.says(r"\boxed{-1}", times=None)
    episode = play(3)
    stop(episode)
    judge_all(episode)
    # two steps to which something came back; to the last nothing did, so it is not voted on
    assert [(round(one.reward, 4), one.voted) for one in samples_of(episode)] == [
        (-0.6347, True), (-0.6347, True), (0.0, False),
    ]  # fmt: skip
    first, _, _ = turns_of(episode)
    judgement = Judgement.objects.get(turn=first)
    assert (judgement.reward, judgement.reward_from) == (-1, "votes")
    assert Vote.objects.filter(turn=first, question="score").count() == 3
    assert not Vote.objects.filter(question="hint").exists()


@pytest.mark.parametrize(("good", "code"), [((52, 60), "untrusted"), ((30, 30), "unmeasured")])
def test_votes_that_would_count_nothing_are_not_asked_and_the_step_says_so(
    measured, play, judge_all, engine, good, code
):
    measured(good=good)
    asked = len(engine.calls)
    episode = play(2)
    stop(episode)
    judge_all(episode)
    assert len(engine.calls) == asked
    assert [(one.reward, one.voted) for one in samples_of(episode)] == [(0.0, False), (0.0, False)]
    first, _ = turns_of(episode)
    judgement = Judgement.objects.get(turn=first)
    assert (judgement.reason_code, judgement.reward_from) == (code, "")
    assert judgement.reason == steps_worth.of("till", judges.judge()).sentence


def test_what_is_known_of_one_world_says_nothing_of_another(measured):
    measured()
    assert (steps_worth.of("shell", judges.judge()).n, steps_worth.of("shell", judges.judge()).worth) == (0, 0.0)


def test_an_operator_who_lets_no_vote_teach_is_heard(measured, settings):
    settings.JUDGE_TEACHES = False
    measured()
    assert steps_worth.of("till", judges.judge()).worth == 0


def test_with_other_prompts_a_judge_is_measured_anew(measured):
    measured()
    Vote.objects.update(prompt_version="before")
    steps_worth.forget()
    assert steps_worth.of("till", judges.judge()).n == 0


def test_votes_that_are_not_read_leave_the_step_to_the_outcome(measured, play, judge_all, engine, monkeypatch):
    measured()
    engine.says("no idea", times=None)
    episode = play(2)
    stop(episode)
    judge_all(episode)
    first, _ = turns_of(episode)
    assert samples_of(episode)[0].reward == 0
    assert Judgement.objects.get(turn=first).reason_code == "no_quorum"


def test_while_a_world_is_unmeasured_each_scored_step_is_voted_on_when_there_is_time(
    play, judge_all, engine, settings, monkeypatch
):
    settings.CALIBRATION_VOTES = True
    monkeypatch.setattr(hours, "is_idle", lambda: True)
    engine.says(r"\boxed{1}", times=None)
    episode = play(3)
    first, _, last = turns_of(episode)
    stop(episode, scores={first.completion_id: 1.0, last.completion_id: 1.0})
    judge_all(episode)
    assert measuring.is_due()
    assert measuring.vote(judges.judge())
    assert set(Vote.objects.values_list("turn", "question")) == {(first.pk, "score")}
    assert not measuring.is_due()  # of the second nothing is known, and to the last nothing came back
    steps_worth.forget()
    assert steps_worth.of("till", judges.judge()).n == 1


@pytest.mark.parametrize(("one_in", "is_checked"), [(1, True), (2**129, False)])
def test_once_measured_a_share_of_the_ruled_steps_is_voted_on(
    measured, play, judge_all, monkeypatch, one_in, is_checked
):
    measured()
    monkeypatch.setattr(steps_worth, "ONE_IN", one_in)  # of 2^129 numbers no step has the first
    episode = play(2)
    first, _ = turns_of(episode)
    stop(episode, scores={first.completion_id: 1.0})
    judge_all(episode)
    found = steps_worth.next_check(judges.judge())
    assert (found == first) is is_checked
