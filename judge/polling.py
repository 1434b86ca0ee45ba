"""A poll: m votes on each question about one turn, dealt to the judges in turn, read and counted. No rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from gpu_workers.errors import EngineUnavailable
from judge import hints, judges, prompts, redaction, standing, voting
from judge.evidence import Evidence
from judge.judges import Ask, Judge, Panel, Said
from judge.prompts import Asked
from judge.voting import Outcome

ATTEMPTS = 2
"""How often a vote is asked for: a failed one is kept as failed and asked for once more, of the next judge."""

QUESTIONS: tuple[Asked, ...] = ("score", "hint")


@dataclass(frozen=True)
class Ballot:
    """One judge's answer to one question, read."""

    question: Asked
    index: int
    judge: str
    version: str
    """Of the prompt."""
    role: str
    """Whose next state it read."""
    weight: float
    score: int | None = None
    hint: str = ""
    failure: str = ""
    """Why there is no score."""
    raw: str = ""
    seconds: float = 0.0
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Finding:
    """What the ballots of a poll came to."""

    score: Outcome
    asks_hint: Outcome
    """1: they say that there is a hint."""
    hints: tuple[str, ...] = ()
    """Usable ones, each once, if a quorum brought one: those that more ballots gave first, then the shorter ones."""

    @property
    def hint(self) -> str:
        """The first of them, where no teacher can measure which is best."""
        return next(iter(self.hints), "")


@dataclass(frozen=True)
class Bench:
    """Who casts which of m votes, and what each judge's vote counts."""

    deal: tuple[Judge, ...]
    """The judge of each vote, by its index."""
    weights: Mapping[str, float]

    @property
    def m(self) -> int:
        return len(self.deal)

    def ask(self, question: Asked, index: int, seen: Evidence, attempt: int = 0) -> Ask:
        """Whom to ask for this vote: with each attempt the next judge, so that one who is away loses no vote. To a
        judge elsewhere nothing personal goes."""
        who = self.deal[(index + attempt) % self.m]
        return Ask(who, question, redaction.evidence_without(seen) if who.leaves_machine else seen)

    def read(self, ask: Ask, index: int, said: Said) -> Ballot:
        return read(ask, index, said, self.weights[ask.who.name])


def bench(panel: Panel, votes: int | None = None) -> Bench:
    """Deal m votes among these judges, as calibration weighs them.

    A judge that has stopped (its weight is 0) is left out; when all have, they vote and nothing comes of it. Asks the
    database what each judge counts, so call it outside an event loop.
    """
    weights = {who.name: standing.weight(who.name, who.version) for who in several(panel)}
    return seated([who for who in several(panel) if weights[who.name] > 0] or panel, votes, weights)


def seated(panel: Panel, votes: int | None = None, weights: Mapping[str, float] | None = None) -> Bench:
    """Deal m votes: judges that name a number cast as many, the others take turns at what is left.

    m is `votes` or JUDGE_VOTES, and never less than three, than the judges, or than the numbers they name.
    """
    there = several(panel)
    named = [who for who in there if who.votes for _ in range(who.votes)]
    turns = [who for who in there if not who.votes] or there
    m = max(votes or settings.JUDGE_VOTES, 3, len(named) + sum(not who.votes for who in there))
    deal = (*named, *(turns[n % len(turns)] for n in range(m - len(named))))
    return Bench(deal, {who.name: 1.0 for who in there} if weights is None else weights)


def several(panel: Panel) -> Sequence[Judge]:
    """The judges of a panel. Raises ValueError when there is none."""
    judges_ = panel if isinstance(panel, Sequence) else (panel,)
    if not judges_:
        raise ValueError("nobody judges")
    return judges_


def have_stopped(panel: Panel) -> bool:
    """True when no judge's vote counts at present."""
    return not any(bench(panel).weights.values())


def heard(answers: Sequence[Said]) -> None:
    """Raises EngineUnavailable when nobody could be reached."""
    if answers and all(said.unreachable for said in answers):
        raise EngineUnavailable(answers[0].failure)


def awaited(ballots: Sequence[Ballot]) -> None:
    """Raises EngineUnavailable where a question lacks a quorum that ballots late or never heard could bring."""
    for question in QUESTIONS:
        counted = counting(ballots, question)
        valid = sum(ballot.score is not None and ballot.weight > 0 for ballot in counted)
        unheard = [ballot for ballot in counted if ballot.failure.startswith(standing.UNHEARD) and ballot.weight > 0]
        if valid < voting.quorum(len(counted)) <= valid + len(unheard):
            raise EngineUnavailable(f"{unheard[0].judge}: {unheard[0].failure}")


async def polled(
    at: Bench, seen: Evidence, questions: Sequence[Asked] = QUESTIONS, *, priority: int = judges.PRIORITY
) -> list[Ballot]:
    """Ballots on each question, all asked at once; failed ones are kept, and asked for once more.

    Raises EngineUnavailable when in a round nobody could be reached. Connections stay open: see judges.close.
    """
    cast: list[Ballot] = []
    there: set[tuple[Asked, int]] = set()
    for attempt in range(ATTEMPTS):
        missing = [(q, index) for q in questions for index in range(at.m) if (q, index) not in there]
        if not missing:
            break
        asks = [at.ask(question, index, seen, attempt) for question, index in missing]
        answers = await judges.answers(asks, priority=priority)
        heard(answers)
        for (question, index), ask, said in zip(missing, asks, answers, strict=True):
            cast.append(ballot := at.read(ask, index, said))
            if ballot.score is not None:
                there.add((question, index))
    return cast


def poll(
    panel: Panel,
    seen: Evidence,
    questions: Sequence[Asked] = QUESTIONS,
    *,
    votes: int | None = None,
    priority: int = judges.PRIORITY,
) -> list[Ballot]:
    """As `polled`, for callers without an event loop."""
    seated = bench(panel, votes)

    async def whole() -> list[Ballot]:
        try:
            return await polled(seated, seen, questions, priority=priority)
        finally:
            await judges.close(seated.deal)

    return asyncio.run(whole())


def read(ask: Ask, index: int, said: Said, weight: float = 1.0) -> Ballot:
    """One answer as a ballot: a score and a hint where they can be read, else why not."""
    score: int | None = None
    hint, failure = "", said.failure
    if not failure and ask.asked == "score":
        score = voting.score_of(said.text)
    elif not failure:
        score = voting.decision_of(said.text)
        hint = voting.hint_of(said.text) if score == 1 else ""
        wrong = hints.fault(hint, ask.seen.reply) if hint else "no hint between the markers"
        if hint in prompts.example_hints(ask.who.family):
            wrong = "copied from the judge's own instructions"
        if score == 1 and wrong:
            score, hint, failure = None, "", f"unusable hint: {wrong}"
    if score is None and not failure:
        failure = "unreadable: no boxed score" if said.text.strip() else "unreadable: it said nothing"
    return Ballot(
        question=ask.asked,
        index=index,
        judge=ask.who.name,
        version=said.version or ask.who.version,
        role=ask.seen.next_role,
        weight=weight,
        score=score,
        hint=hint,
        failure=failure,
        raw=said.text,
        seconds=said.seconds,
        tokens=said.tokens,
        prompt_tokens=said.prompt_tokens,
        cached_tokens=said.cached_tokens,
    )


def counting(ballots: Iterable[Ballot], question: Asked) -> list[Ballot]:
    """The m ballots on a question that count: of several with one index the readable one, else the last."""
    best: dict[int, Ballot] = {}
    for ballot in ballots:
        if ballot.question == question and (ballot.index not in best or best[ballot.index].score is None):
            best[ballot.index] = ballot
    return [best[index] for index in sorted(best)]


def finding(ballots: Sequence[Ballot]) -> Finding:
    """What all ballots of a poll came to."""
    scores, tellings = counting(ballots, "score"), counting(ballots, "hint")
    usable = [ballot.score == 1 and bool(ballot.hint) for ballot in tellings]
    weights = [ballot.weight for ballot in tellings]
    decisions = [ballot.score for ballot in tellings]
    accepted = bool(tellings) and voting.is_accepted(decisions, usable, weights)
    given = Counter(ballot.hint for ballot, fine in zip(tellings, usable, strict=True) if fine)
    return Finding(
        voting.outcome([ballot.score for ballot in scores], [ballot.weight for ballot in scores]),
        voting.outcome(decisions, weights),
        tuple(sorted(given, key=lambda hint: (-given[hint], len(hint)))) if accepted else (),
    )
