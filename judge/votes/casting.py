"""Cast the judges' votes on a turn, and keep every ballot as a row."""

from __future__ import annotations

from collections.abc import Sequence

from chat.models import Turn
from judge.calibration import vote_floor
from judge.models import Vote
from judge.votes import judges, polling, prompts
from judge.votes.evidence import Evidence
from judge.votes.judge import Panel
from judge.votes.polling import Ballot, Bench


def cast(
    turn: Turn,
    seen: Evidence,
    questions: Sequence[Vote.Question],
    *,
    who: Panel,
    priority: int = judges.PRIORITY,
) -> list[Vote]:
    """m votes on each question, all asked at once; failed ones are kept and asked for once more.

    Votes that these judges gave on the same evidence before (a worker died, the task ran twice, a person re-opened the
    verdict) count and are not asked for again; those that were never heard make room for the new ones. Returns them
    and all new ones. Raises EngineUnavailable.
    """
    seated = polling.bench(who)
    votes = _readable(turn, seen, questions, seated)
    for attempt in range(polling.ATTEMPTS):
        there = {(vote.question, vote.index) for vote in votes if vote.score is not None}
        missing = [(q, index) for q in questions for index in range(seated.m) if (q, index) not in there]
        if not missing:
            break
        asks = [seated.ask(ASKED[question], index, seen, attempt) for question, index in missing]
        answers = judges.ask(asks, priority=priority)
        polling.heard(answers)
        if attempt == 0:  # however long a judge is slow, its silence is kept once
            earlier = Vote.objects.filter(turn=turn, question__in=questions, evidence=seen.digest)
            earlier.filter(vote_floor.unheard()).delete()
        for (_, index), ask, said in zip(missing, asks, answers, strict=True):
            vote = vote_of(turn, seen, seated.read(ask, index, said))
            vote.save()
            votes.append(vote)
    return votes


ASKED: dict[Vote.Question, prompts.Asked] = {Vote.Question.SCORE: "score", Vote.Question.HINT: "hint"}


def vote_of(turn: Turn, seen: Evidence, ballot: Ballot) -> Vote:
    """A ballot as a row, not yet saved."""
    return Vote(
        turn=turn,
        question=ballot.question,
        index=ballot.index,
        judge=ballot.judge,
        prompt_version=ballot.version,
        role=ballot.role,
        weight=ballot.weight,
        evidence=seen.digest,
        raw=ballot.raw,
        score=ballot.score,
        topic=ballot.topic,
        probabilities=dict(ballot.probabilities),
        hint=ballot.hint,
        failure=ballot.failure,
        seconds=ballot.seconds,
        tokens=ballot.tokens,
        prompt_tokens=ballot.prompt_tokens,
        cached_tokens=ballot.cached_tokens,
    )


def ballot_of(vote: Vote) -> Ballot:
    return Ballot(
        question=ASKED[Vote.Question(vote.question)],
        index=vote.index,
        judge=vote.judge,
        version=vote.prompt_version,
        role=vote.role,
        weight=vote.weight,
        score=vote.score,
        topic=vote.topic,
        probabilities=vote.probabilities,
        hint=vote.hint,
        failure=vote.failure,
    )


def _readable(turn: Turn, seen: Evidence, questions: Sequence[Vote.Question], seated: Bench) -> list[Vote]:
    """Votes that count already: by these judges, with their prompts, on this evidence."""
    votes = Vote.objects.filter(
        turn=turn, question__in=questions, evidence=seen.digest, score__isnull=False, index__lt=seated.m
    )
    versions = {who.name: who.versions for who in seated.deal}
    return [vote for vote in votes if vote.prompt_version in versions.get(vote.judge, ())]
