"""A poll: m votes on each question about one turn, dealt to the judges in turn, read and counted. No rows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from django.conf import settings
from django.utils.translation import gettext_noop

from gpu_workers.errors import EngineUnavailable
from judge.calibration import judge_answers, scales, vote_floor
from judge.calibration.scales import PLAIN, Measure, Said
from judge.hints import hint_words
from judge.samples import redaction
from judge.votes import judges, prompts, voting
from judge.votes.evidence import Evidence
from judge.votes.judge import Judge, Panel
from judge.votes.judges import Ask
from judge.votes.judges import Said as Answer
from judge.votes.prompts import Asked
from judge.votes.voting import NEW, Outcome

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
    topic: str = ""
    """NEW where it says that the subject changes."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Of each answer, where the judge gives them."""
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
    is_own_sure: bool = False
    """They are so sure that a change is asked for that the user's own next message may teach by itself."""

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
    measures: Mapping[str, Measure] = field(default_factory=dict)
    """How each judge's probabilities are scaled, and from which on it is sure enough; none: by plain majority."""

    @property
    def m(self) -> int:
        return len(self.deal)

    def ask(self, question: Asked, index: int, seen: Evidence, attempt: int = 0) -> Ask:
        """Whom to ask for this vote: with each attempt the next judge, so that one who is away loses no vote. To a
        judge elsewhere nothing personal goes."""
        who = self.deal[(index + attempt) % self.m]
        return Ask(who, question, redaction.evidence_without(seen) if who.leaves_machine else seen)

    def read(self, ask: Ask, index: int, said: Answer) -> Ballot:
        return read(ask, index, said, self.weights[ask.who.name])


def bench(panel: Panel, votes: int | None = None) -> Bench:
    """Deal m votes among these judges, as calibration weighs them.

    A judge that counts for nothing is left out; when none counts, they vote and nothing comes of it. Asks the
    database what each judge counts, so call it outside an event loop.
    """
    weights = {who.name: vote_floor.weight(who.name, who.version) for who in several(panel)}
    asked = [who for who in several(panel) if weights[who.name] > 0]
    # Where none counts, those that are not measured yet vote all the same: it is shown, and measured against thumbs.
    return seated(asked or unknown(panel) or panel, votes, weights)


def unknown(panel: Panel) -> list[Judge]:
    """The judges that count for nothing since they were not measured."""
    return [who for who in several(panel) if vote_floor.lately(who.name, who.version).is_unknown]


def seated(
    panel: Panel,
    votes: int | None = None,
    weights: Mapping[str, float] | None = None,
    measures: Mapping[str, Measure] | None = None,
) -> Bench:
    """Deal the votes on a question. A judge that gives probabilities reads it once. Others cast m votes together:
    those that name a number as many, the rest take turns at what is left.

    m is `votes` or JUDGE_VOTES, and never less than three, than those judges, or than the numbers they name.
    Without `measures` the database is asked for them, so call it outside an event loop.
    """
    there = several(panel)
    readers = [who for who in there if who.reads]
    casting = [who for who in there if not who.reads]
    named = [who for who in casting if who.votes for _ in range(who.votes)]
    turns = [who for who in casting if not who.votes] or casting
    m = max(votes or settings.JUDGE_VOTES, 3, len(named) + sum(not who.votes for who in casting)) if casting else 0
    deal = (*readers, *named, *(turns[n % len(turns)] for n in range(m - len(named))))
    if measures is None:
        measures = {who.name: scales.of(who.name, who.version) for who in there}
    return Bench(deal, {who.name: 1.0 for who in there} if weights is None else weights, measures)


def several(panel: Panel) -> Sequence[Judge]:
    """The judges of a panel. Raises ValueError when there is none."""
    judges_ = panel if isinstance(panel, Sequence) else (panel,)
    if not judges_:
        raise ValueError("there is no judge")
    return judges_


def have_stopped(panel: Panel) -> bool:
    """True when every judge was measured and does badly, or was stopped: then none is asked."""
    return not _any_counts(panel) and not unknown(panel)


def are_unknown(panel: Panel) -> bool:
    """True when no judge's vote counts, and some were not measured: they vote, and nothing comes of it."""
    return not _any_counts(panel) and bool(unknown(panel))


def _any_counts(panel: Panel) -> bool:
    return any(vote_floor.weight(who.name, who.version) for who in several(panel))


def heard(answers: Sequence[Answer]) -> None:
    """Raises EngineUnavailable when no judge could be reached."""
    if answers and all(said.unreachable for said in answers):
        raise EngineUnavailable(answers[0].failure)


def awaited(ballots: Sequence[Ballot]) -> None:
    """Raises EngineUnavailable where a question lacks a quorum that ballots late or never heard could bring."""
    for question in QUESTIONS:
        counted = counting(ballots, question)
        valid = sum(ballot.score is not None and ballot.weight > 0 for ballot in counted)
        unheard = [ballot for ballot in counted if ballot.failure.startswith(vote_floor.UNHEARD) and ballot.weight > 0]
        if valid < voting.quorum(len(counted)) <= valid + len(unheard):
            raise EngineUnavailable(f"{unheard[0].judge}: {unheard[0].failure}")


async def polled(
    at: Bench, seen: Evidence, questions: Sequence[Asked] = QUESTIONS, *, priority: int = judges.PRIORITY
) -> list[Ballot]:
    """Ballots on each question, all asked at once; failed ones are kept, and asked for once more.

    Raises EngineUnavailable when in a round no judge could be reached. Connections stay open: see judges.close.
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


def read(ask: Ask, index: int, said: Answer, weight: float = 1.0) -> Ballot:
    """One answer as a ballot: a score and a hint where they can be read, else why not."""
    score: int | None = None
    hint, failure = "", said.failure
    topic = ""
    if not failure and ask.asked == "score":
        answer = voting.answer_of(said.text)
        score, topic = (0, NEW) if answer == NEW else (answer, "")
    elif not failure:
        score = voting.decision_of(said.text)
        hint = voting.hint_of(said.text) if score == 1 else ""
        wrong = hint_words.fault(hint, ask.seen.reply) if hint else "no hint between the markers"
        if hint in prompts.example_hints(ask.who.family):
            wrong = "copied from the judge's own instructions"
        if score == 1 and wrong:
            hint, failure = "", f"unusable hint: {wrong}"
            # Whether a change is asked for is known all the same where it was read off its probabilities.
            score = score if said.probabilities else None
    if score is None and not failure:
        boxed, silent = gettext_noop("unreadable: no boxed score"), gettext_noop("unreadable: it said nothing")
        failure = boxed if said.text.strip() else silent
    return Ballot(
        question=ask.asked,
        index=index,
        judge=ask.who.name,
        version=said.version or ask.who.version,
        role=ask.seen.next_role,
        weight=weight,
        score=score,
        topic=topic,
        probabilities=said.probabilities,
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


def finding(ballots: Sequence[Ballot], measures: Mapping[str, Measure] = MappingProxyType({})) -> Finding:
    """What all ballots of a poll came to; `measures` are those of their bench."""
    scorings, tellings = counting(ballots, "score"), counting(ballots, "hint")
    score = score_found(scorings, tellings, measures)
    asks = hint_found(tellings, scorings, measures)
    given = Counter(ballot.hint for ballot in tellings if ballot.score == 1 and ballot.hint and ballot.weight)
    usable = tuple(sorted(given, key=lambda hint: (-given[hint], len(hint)))) if asks.reward == 1 else ()
    heard = spoken(tellings) or {}
    own = asks.reward == 1 and is_sure(asks.confidence or 0, (measures.get(one, PLAIN).least_own for one in heard))
    return Finding(score, asks, usable, own)


def score_found(counted: Sequence[Ballot], tellings: Sequence[Ballot], measures: Mapping[str, Measure]) -> Outcome:
    """The reward, where the judges are sure enough of it in the light of what each said to the other question
    (`tellings`). Judges are weighed against each other as their standing says: a mixture of probabilities that hold is
    at most too careful."""
    if (heard := spoken(counted)) is None:
        return Outcome(None, None, _valid(counted), len(counted))
    beside = said_by_judge(tellings)
    mixed = dict.fromkeys(judge_answers.SCORES, 0.0)
    total = sum(each[0].weight for each in heard.values())
    for judge, each in heard.items():
        for answer, p in measures.get(judge, PLAIN).score(said(each), each[0].role, beside.get(judge)).items():
            mixed[answer] += p * each[0].weight / total
    chances = judge_answers.rewards(mixed)
    leaning = judge_answers.likeliest(chances)
    sure = is_sure(chances[leaning], (measures.get(judge, PLAIN).least for judge in heard))
    return Outcome(
        leaning if sure else None,
        min(chances[leaning], 1.0),
        _valid(counted),
        len(counted),
        None if sure else leaning,
        is_new=sure and leaning == 0 and mixed[NEW] >= mixed["0"],
    )


def hint_found(counted: Sequence[Ballot], scorings: Sequence[Ballot], measures: Mapping[str, Measure]) -> Outcome:
    """1 where the judges are sure enough that a change is asked for, else -1; confidence is that of what it says."""
    if (heard := spoken(counted)) is None:
        return Outcome(None, None, _valid(counted), len(counted))
    beside = said_by_judge(scorings)
    total = sum(each[0].weight for each in heard.values())
    asks = sum(
        measures.get(judge, PLAIN).hint(said(each), each[0].role, beside.get(judge))["1"] * each[0].weight / total
        for judge, each in heard.items()
    )
    asks = min(asks, 1.0)
    sure = is_sure(asks, (measures.get(judge, PLAIN).least_hint for judge in heard))
    return Outcome(1 if sure else -1, asks if sure else 1 - asks, _valid(counted), len(counted))


def is_sure(confidence: float, thresholds: Iterable[float | None]) -> bool:
    """Whether it reaches the threshold of every judge that spoke; one that has none is never sure."""
    return all(least is not None and confidence >= least - voting.SLACK for least in thresholds)


def spoken(counted: Sequence[Ballot]) -> dict[str, list[Ballot]] | None:
    """The readable ballots of each judge whose word counts; None without a quorum of all."""
    if _valid(counted) < voting.quorum(len(counted)):
        return None
    heard: dict[str, list[Ballot]] = {}
    for ballot in counted:
        if ballot.score is not None and ballot.weight > 0:
            heard.setdefault(ballot.judge, []).append(ballot)
    return heard or None


def said_by_judge(counted: Iterable[Ballot]) -> dict[str, Said]:
    """What each judge said to a question, where it can be read."""
    each: dict[str, list[Ballot]] = {}
    for ballot in counted:
        if ballot.score is not None:
            each.setdefault(ballot.judge, []).append(ballot)
    return {judge: said(ballots) for judge, ballots in each.items()}


def said(ballots: Sequence[Ballot]) -> Said:
    """What one judge's ballots on a question say: its probabilities, or the votes it cast."""
    read = [ballot.probabilities for ballot in ballots if ballot.probabilities]
    return read[-1] if read else [ballot.topic or str(ballot.score) for ballot in ballots]


def _valid(counted: Sequence[Ballot]) -> int:
    return sum(ballot.score is not None and ballot.weight > 0 for ballot in counted)
