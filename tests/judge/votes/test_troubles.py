"""Judges that are down, slow, babbling or at odds with themselves: whole verdicts through the pipeline's task.

Nothing is lost, what may be tried again is, and there is one verdict in the end.
"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from chat import turns
from chat.models import Turn
from gpu_workers.errors import EngineUnavailable
from judge import verdicts
from judge.calibration import vote_floor
from judge.models import Judgement, Sitting, Vote
from judge.tasks import judge_turn
from judge.votes import deciding, judges
from judge.votes.engine_judge import EngineJudge
from judge.votes.judge import Reply
from training.config import Recipe
from training.models import Sample
from webapp import pipeline
from webapp.pipeline import ARROWS


@pytest.fixture(autouse=True)
def fresh():
    vote_floor.forget()
    yield
    vote_floor.forget()


@pytest.fixture
def nudges(monkeypatch):
    """Task and id of what the pipeline sends to workers."""
    sent = []
    monkeypatch.setattr(
        "celery.Task.apply_async", lambda task, arguments=(), **options: sent.append((task.name, *arguments))
    )
    return sent


@pytest.fixture
def through(monkeypatch, nudges, renderer):
    """A worker takes the task of a turn, with Celery's own retries, at once."""

    def through(turn: Turn) -> None:
        judge_turn.apply((str(turn.pk),), throw=False)

    return through


def status(turn: Turn) -> str:
    return Turn.objects.get(pk=turn.pk).status


def swept(turn: Turn, nudges: list) -> bool:
    """Whether the sweep finds a turn that has waited for long."""
    Turn.objects.filter(pk=turn.pk).update(moved_at=timezone.now() - timedelta(minutes=5))
    nudges.clear()
    (arrow,) = [arrow for arrow in ARROWS if arrow.task.name == judge_turn.name]
    pipeline._send_again(arrow)
    return ("judge.tasks.judge_turn", str(turn.pk)) in nudges


def failing(engine, times: int):
    """The engine cannot be reached for so many questions, and then it can."""
    answer, left = engine.generate, [times]

    async def generate(*arguments, **options):
        if left[0] > 0:
            left[0] -= 1
            raise EngineUnavailable("not there")
        return await answer(*arguments, **options)

    engine.generate = generate


def test_a_judge_that_is_down_for_long_loses_nothing(serve, through, engine, nudges):
    turn = serve(next_state="Thanks!")
    engine.goes_down()
    through(turn)
    assert status(turn) == "observed"
    assert not Judgement.objects.exists()
    assert not Vote.objects.exists()  # no judge was asked, so none failed
    assert not Sitting.objects.exists()
    assert swept(turn, nudges)

    engine.comes_back()
    engine.says(r"\boxed{1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    through(turn)
    judgement = Judgement.objects.get()
    assert (status(turn), judgement.reward, judgement.reward_from) == ("judged", 1, "votes")
    assert judgement.sample == Sample.objects.get()
    assert not swept(turn, nudges)


def test_a_judge_that_is_away_for_a_moment_is_asked_again(serve, through, engine):
    failing(engine, times=2)  # two of the first six; the second round reaches it
    engine.says(r"\boxed{1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="Thanks!")
    through(turn)
    assert Judgement.objects.get().reward == 1
    assert Vote.objects.filter(failure__startswith="unreachable").count() == 2
    assert Vote.objects.filter(score__isnull=False).count() == 6


def test_a_slow_judge_loses_nothing_and_is_asked_again(serve, through, engine, nudges, settings):
    settings.JUDGE_DEADLINE_S = 0.05
    turn = serve(next_state="Thanks!")
    engine.hold()
    try:
        through(turn)
    finally:
        engine.release()
    assert status(turn) == "observed"
    assert not Judgement.objects.exists()
    assert Vote.objects.count() == 12  # three on each question, each asked for twice; earlier silence is not kept
    assert swept(turn, nudges)

    settings.JUDGE_DEADLINE_S = 60
    engine.says(r"\boxed{1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    through(turn)
    assert (status(turn), Judgement.objects.get().reward) == ("judged", 1)
    assert not Vote.objects.exclude(failure="").exists()


def test_a_judge_that_is_slow_for_hours_is_too_late_and_the_turn_says_so(serve, through, engine, settings):
    settings.JUDGE_DEADLINE_S = 0.05
    turn = serve(next_state="Thanks!", observed_at=timezone.now() - deciding.PATIENCE)
    engine.hold()
    try:
        through(turn)
    finally:
        engine.release()
    judgement = Judgement.objects.get()
    assert (status(turn), judgement.reward, judgement.reason_code) == ("judged", None, "no_quorum")
    votes = Vote.objects.all()
    assert {vote.failure.partition(":")[0] for vote in votes} == {"too late"}
    assert len(votes) == 12  # three on each question, each asked for twice
    assert not Sample.objects.exists()


def test_a_babbling_judge_decides_nothing_and_its_words_are_kept(serve, through, engine):
    engine.says("Well, it depends on how one looks at it, does it not?", times=None)
    turn = serve(next_state="Thanks!")
    through(turn)
    judgement = Judgement.objects.get()
    assert (judgement.reward, judgement.reason_code, judgement.sample) == (None, "no_quorum", None)
    votes = Vote.objects.all()
    assert len(votes) == 12
    assert all(vote.failure.startswith("unreadable") and "depends" in vote.raw for vote in votes)


def test_a_babbler_that_comes_to_its_senses_is_heard(serve, through, engine):
    engine.says("Hm.", to="Judge the reply", times=3)
    engine.says(r"\boxed{-1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="No.")
    through(turn)
    assert Judgement.objects.get().reward == -1
    assert Vote.objects.filter(question="score", score=None).count() == 3
    assert Vote.objects.filter(question="score", score=-1).count() == 3


def test_a_judge_at_odds_with_itself_is_unclear_and_teaches_nothing(serve, through, engine):
    for said in (r"\boxed{1}", r"\boxed{-1}", r"\boxed{0}"):
        engine.says(said, to="Judge the reply", times=1)
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="Well, well.")
    through(turn)
    judgement = Judgement.objects.get()
    assert (judgement.reward, judgement.confidence) == (None, pytest.approx(1 / 3))
    assert judgement.reason_code == "unclear"
    assert not Sample.objects.exists()


def test_one_vote_that_says_both_means_what_it_said_last(serve, through, engine):
    engine.says(r"Good \boxed{1}. No, bad: \boxed{-1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="No.")
    through(turn)
    assert Judgement.objects.get().reward == -1


def test_the_same_task_sent_thrice_asks_once(serve, through, engine):
    engine.says(r"\boxed{1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    turn = serve(next_state="Thanks!")
    for _ in range(3):
        through(turn)
    assert Judgement.objects.count() == Sample.objects.count() == 1
    assert Vote.objects.count() == 6


def test_where_every_judge_has_stopped_votes_teach_nothing_and_no_judge_is_asked(serve, say, through, engine, person):
    who = judges.judge()
    vote_floor.overrule(who.name, who.version, 0, by=person, reason="A trial.")
    turn = serve(next_state="Thanks!")
    through(turn)
    judgement = Judgement.objects.get()
    assert (status(turn), judgement.reward, judgement.reason_code) == ("judged", None, "no_judge")
    assert engine.asked("generate") == []
    assert not Vote.objects.exists()

    blamed = serve(next_state="No.")
    say(blamed, "thumb", value=-1)  # what people say teaches as before
    through(blamed)
    assert Judgement.objects.get(turn=blamed).sample.reward == -1

    vote_floor.overrule(who.name, who.version, None, by=person, reason="Over.")
    engine.says(r"\boxed{1}", to="Judge the reply", times=None)
    engine.says(r"\boxed{-1}", times=None)
    turns.reopen(turns.locked(turn))
    through(turn)
    assert Judgement.objects.get(turn=turn).reward == 1


def test_a_judge_that_counts_less_is_outvoted_by_one_that_counts_in_full(serve, engine, renderer, person, monkeypatch):
    poor, good = (EngineJudge(engine, renderer, name=name) for name in ("poor", "good"))
    vote_floor.overrule("poor", poor.version, 0.25, by=person, reason="A trial.")
    score = {"poor": r"\boxed{1}", "good": r"\boxed{-1}"}

    async def answer(self, asked, seen, priority):
        return Reply(score[self.name] if asked == "score" else r"\boxed{-1}", version=self.version)

    monkeypatch.setattr(EngineJudge, "answer", answer)
    turn = serve(next_state="Well.")
    verdicts.judge(str(turn.pk), who=(poor, good), engine=engine, renderer=renderer, recipe=Recipe())
    votes = Vote.objects.filter(question="score")
    assert [(vote.judge, vote.weight, vote.score) for vote in votes] == [
        ("poor", 0.25, 1),
        ("good", 1.0, -1),
        ("poor", 0.25, 1),
    ]
    judgement = Judgement.objects.get()
    assert judgement.reward == -1  # each judge's votes are one reading: a quarter against one in full
    assert judgement.confidence == pytest.approx(1 / 1.25)
