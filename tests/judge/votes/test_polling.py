"""Judges as they are: babbling, empty, contradictory, slow, down, light. Through the verdict's own door."""

from __future__ import annotations

import asyncio

import pytest

from gpu_workers.errors import EngineRefused, EngineUnavailable
from gpu_workers.types import Completion
from judge import verdicts
from judge.calibration import vote_floor
from judge.hints import undecided
from judge.models import Judgement, Vote
from judge.samples.sample_rows import Reason
from judge.votes.engine_judge import EngineJudge
from judge.votes.judge import Reply
from training.config import Recipe

BINARY, OPD = Recipe(w_opd=0), Recipe(w_rl=0)


@pytest.fixture
def judged(serve, engine, renderer):
    """A turn brought to its verdict by this panel; else by one judge, the engine's."""

    def judged(*panel, recipe=BINARY, next_state="No, four.", **fields):
        turn = serve(next_state=next_state, **fields)
        who = panel or (EngineJudge(engine, renderer),)
        verdicts.judge(str(turn.pk), who=who, engine=engine, renderer=renderer, recipe=recipe)
        return Judgement.objects.get(turn=turn)

    return judged


class Scripted:
    """A judge that says these things, one after another, the last one for ever; an error is raised."""

    kind, family, version, versions, votes = "openai", "cases", "cases-1", frozenset({"cases-1"}), None
    host, leaves_machine, reads = "", False, False

    def __init__(self, *sayings, name="scripted"):
        self.name, self.sayings, self.asked = name, list(sayings), 0

    async def answer(self, asked, seen, priority):
        self.asked += 1
        said = self.sayings.pop(0) if len(self.sayings) > 1 else self.sayings[0]
        if isinstance(said, Exception):
            raise said
        return Reply(said, tokens=7, prompt_tokens=100, cached_tokens=90)

    async def aclose(self):
        pass


@pytest.mark.parametrize(
    ("babble", "failure"),
    [
        ("The reply is a reply and the reply is a reply " * 3000, "unreadable: no boxed score"),
        ("", "unreadable: it said nothing"),
        (" \n\n", "unreadable: it said nothing"),
        (r"\boxed{maybe}", "unreadable: no boxed score"),
        ("<think>It may be 1, or it may be \\boxed{1}, or", "unreadable: no boxed score"),
    ],
)
def test_babble_and_silence_are_failed_votes_and_no_zeros(judged, babble, failure):
    judge = Scripted(babble)
    verdict = judged(judge)
    assert (verdict.reward, verdict.reason) == (None, Reason.NO_QUORUM)
    assert judge.asked == 6  # three, each once more
    assert set(Vote.objects.values_list("failure", "raw", "score")) == {(failure, babble, None)}


def test_a_judge_that_is_cut_off_in_mid_babble_is_a_failed_vote(judged, engine, renderer, settings, monkeypatch):
    settings.JUDGE_MAX_NEW_TOKENS = 5

    async def babbles(prompt_ids, sampling, **kwargs):
        ids = tuple(range(10, 10 + sampling.max_new_tokens))
        return Completion("and so on", ids, (-1.0,) * len(ids), "length", prompt_tokens=len(prompt_ids))

    monkeypatch.setattr(engine, "generate", babbles)
    assert judged().reward is None
    assert set(Vote.objects.values_list("tokens", flat=True)) == {5}


def test_a_judge_that_contradicts_itself_is_taken_at_its_last_word(judged):
    assert judged(Scripted(r"\boxed{1} On second thoughts \boxed{-1}")).reward == -1


def test_judges_that_contradict_each_other_are_unclear_and_a_person_decides(judged):
    panel = [Scripted(rf"\boxed{{{score}}}", name=f"judge of {score}") for score in (1, 0, -1)]
    verdict = judged(*panel)
    assert (verdict.reward, verdict.reward_from, verdict.reason_code, verdict.sample) == (None, "", "unclear", None)
    assert list(undecided.unclear().values_list("because", flat=True)) == ["not sure"]
    assert verdict.confidence == pytest.approx(1 / 3)


def test_a_slow_judge_is_left_behind_and_another_answers_for_it(judged, settings):
    settings.JUDGE_DEADLINE_S = 0.05
    left = []

    class Slow(Scripted):
        async def answer(self, asked, seen, priority):
            try:
                await asyncio.Event().wait()  # for ever
            except asyncio.CancelledError:
                left.append(asked)  # its request is aborted
                raise

    slow, quick = Slow("", name="slow"), Scripted(r"\boxed{-1}", name="quick")
    verdict = judged(slow, quick)
    assert verdict.reward == -1
    late = Vote.objects.filter(judge="slow")
    assert {vote.failure for vote in late} == {"too late: no answer within 0.05 s"}
    assert len(left) == late.count() == 3  # votes 0 and 2, and vote 2 once more


def test_late_votes_that_could_bring_a_quorum_are_waited_for_and_those_that_could_not_are_not(judged):
    away = EngineUnavailable("not there")
    with pytest.raises(EngineUnavailable, match="not there"):
        judged(Scripted(r"\boxed{1}", "What?", away, away, "What?"))  # one of the two it takes; vote 1 may yet come
    verdict = judged(Scripted("What?", "What?", away, "What?", "What?", away))  # with vote 2 it were one of two
    assert (verdict.reward, verdict.reason) == (None, Reason.NO_QUORUM)


def test_a_judge_that_refuses_is_a_failed_vote_with_its_reason(judged):
    assert judged(Scripted(EngineRefused("I will not."), r"\boxed{1}")).reward == 1
    assert Vote.objects.get(score=None).failure == "refused: I will not."


def test_each_vote_says_who_read_what_how_long_and_at_what_cost(judged):
    judged(Scripted(r"They object. \boxed{-1}"))
    for vote in Vote.objects.all():
        assert (vote.judge, vote.prompt_version, vote.role, vote.weight) == ("scripted", "cases-1", "user", 1.0)
        assert (vote.tokens, vote.prompt_tokens, vote.cached_tokens) == (7, 100, 90)
        assert vote.seconds > 0
        assert vote.raw == r"They object. \boxed{-1}"


def test_a_light_judge_counts_less_and_its_votes_say_so(judged, monkeypatch):
    monkeypatch.setattr(vote_floor, "weight", lambda name, version: 0.25 if name == "light" else 1.0)
    light, heavy = Scripted(r"\boxed{1}", name="light"), Scripted(r"\boxed{-1}", name="heavy")
    verdict = judged(light, heavy)  # light, heavy, light: each judge is heard once, however many votes it cast
    assert verdict.reward == -1
    assert verdict.confidence == pytest.approx(1 / 1.25)
    assert set(Vote.objects.values_list("judge", "weight")) == {("light", 0.25), ("heavy", 1.0)}


def test_where_every_judge_has_stopped_no_judge_is_asked(judged, monkeypatch):
    monkeypatch.setattr(vote_floor, "weight", lambda name, version: 0.0)
    judge = Scripted(r"\boxed{1}")
    verdict = judged(judge)
    assert (verdict.reward, verdict.reason) == (None, Reason.NO_JUDGE)
    assert judge.asked == 0


def test_votes_on_the_same_evidence_are_counted_again_and_no_judge_is_asked(judged, engine, renderer):
    judge = Scripted(r"\boxed{-1}")
    verdict = judged(judge)
    verdict.turn.refresh_from_db()
    verdict.turn.move("observed")
    verdicts.judge(str(verdict.turn.pk), who=judge, engine=engine, renderer=renderer, recipe=BINARY)
    assert judge.asked == 3
    assert Vote.objects.count() == 3


def test_other_prompts_make_other_votes(judged, engine, renderer):
    judge = Scripted(r"\boxed{-1}")
    verdict = judged(judge)
    verdict.turn.refresh_from_db()
    verdict.turn.move("observed")
    judge.version, judge.versions = "cases-2", frozenset({"cases-2"})
    verdicts.judge(str(verdict.turn.pk), who=judge, engine=engine, renderer=renderer, recipe=BINARY)
    assert judge.asked == 6
