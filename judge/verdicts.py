"""One turn's verdict: what people said decides; where they said nothing, votes do. Safe to run twice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from chat.models import Session, Turn
from chat.rendering import Renderer
from core.errors import IllegalMove
from feedback.models import Feedback
from gpu_workers.engine import Engine
from gpu_workers.errors import EngineUnavailable
from judge import evidence, hints, judges, prompts, samples, teacher, voting
from judge.evidence import Evidence
from judge.judges import Judge
from judge.models import Judgement, Vote
from judge.samples import Reason
from judge.sittings import sitting
from judge.teacher import Reading, Unreadable
from training.config import Recipe
from training.models import Sample

log = logging.getLogger(__name__)

ATTEMPTS = 2
"""How often a vote is asked for: a failed one is kept as failed and asked for once more."""

ROUNDS = 5
"""How often a verdict is begun again because evidence arrived meanwhile; then the next sweep takes it."""


@dataclass(frozen=True)
class Opinion:
    """What the evidence comes to, before it is known whether it can teach."""

    reward: int | None = None
    reward_from: str = ""
    confidence: float | None = None
    hints: tuple[str, ...] = ()
    """Accepted hints; where there are several the teacher's measured gain chooses."""
    hint_from: str = ""
    note: Reason | None = None
    """What of the evidence could not be used."""


@dataclass(frozen=True)
class Verdict:
    """An opinion, and the sample it makes of the turn."""

    opinion: Opinion
    hint: str = ""
    reading: Reading | None = None
    sample: Sample | None = None
    reason: str = ""


def judge(turn_id: str, *, who: Judge, engine: Engine, renderer: Renderer, recipe: Recipe) -> bool:
    """Bring an observed turn to its verdict. True when this call wrote one.

    Does nothing for a turn that is not observed, that somebody else is judging, or that a run is learning just now
    (what is said meanwhile waits for the run's end). Raises EngineUnavailable when nobody could be asked.
    """
    with sitting(f"turn {turn_id}", for_s=ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None:
            return False
        for _ in range(ROUNDS):
            turn = Turn.objects.select_related("session", "checkpoint").get(pk=turn_id)
            if turn.status != Turn.Status.OBSERVED:
                return False
            held = Judgement.objects.select_related("sample__run").filter(turn=turn).first()
            if samples.is_held(held):
                _mark_late(turn, held)
                return False
            seen = evidence.of(turn)
            verdict = reach(turn, seen, who=who, engine=engine, renderer=renderer, recipe=recipe)
            if _written(turn, seen, verdict, renderer):
                return True
        return False


def reach(turn: Turn, seen: Evidence, *, who: Judge, engine: Engine, renderer: Renderer, recipe: Recipe) -> Verdict:
    """The verdict on this evidence. Votes are asked for only where people left open what the recipe needs."""
    if unfit := samples.unfit(turn):
        return Verdict(stated(seen), hint=seen.correction, reason=unfit)
    trusted = settings.JUDGE_TEACHES
    decided = is_decided(seen, recipe, trusted=trusted)
    opinion = stated(seen) if decided else voted(turn, seen, who=who, recipe=recipe)
    reward, wanted = samples.signals(opinion.reward, opinion.hints, recipe)
    hint = next(iter(opinion.hints), "")
    if not reward and not wanted:
        return Verdict(opinion, hint, reason=_silence(opinion, seen))
    if not decided and not trusted:
        return Verdict(opinion, hint, reason=Reason.UNTRUSTED)
    try:
        reading = teacher.read(turn, wanted, engine, renderer, by=recipe.teacher)
    except Unreadable as error:
        return Verdict(opinion, hint, reason=str(error)[:200])
    lesson = reading.best(opinion.reward)  # where several hints were accepted, what they do decides
    sample = samples.drafted(turn, reward, lesson, reading.old_logprobs)
    return Verdict(opinion, lesson.hint if lesson else hint, reading, sample, opinion.note or "")


def stated(seen: Evidence) -> Opinion:
    """What people and tests said in so many words: a thumb or a test's verdict is the reward, a correction the hint."""
    correction = seen.correction
    return Opinion(
        reward=seen.reward,
        reward_from=seen.reward_from,
        confidence=1.0 if seen.reward is not None else None,
        hints=(correction,) if correction else (),
        hint_from="guidance" if seen.guidance else "rewrite" if correction else "",
    )


def is_decided(seen: Evidence, recipe: Recipe, *, trusted: bool = True) -> bool:
    """True when no vote could add what the recipe needs.

    A correction is enough where the recipe learns from hints, a thumb or a test where it learns from rewards; only
    a bad reply after which something came back still leaves open how it should have been done, and then a `trusted`
    judge is asked for it. Nothing came back: there is nothing to vote on.
    """
    if recipe.w_opd and seen.correction:
        return True
    if not seen.next_role:
        return True
    if seen.reward is None:
        return False
    return not (trusted and recipe.w_opd and seen.reward < 0)


def voted(turn: Turn, seen: Evidence, *, who: Judge, recipe: Recipe) -> Opinion:
    """The opinion with the judge's votes where people left something open. Every vote is kept.

    Raises EngineUnavailable when no vote of a round could be cast because nobody answered.
    """
    questions = []
    if recipe.w_rl and seen.reward is None:
        questions.append(Vote.Question.SCORE)
    if recipe.w_opd and not seen.correction:
        questions.append(Vote.Question.HINT)
    opinion = stated(seen)
    votes = cast(turn, seen, questions, who=who)
    if scores := votes.get(Vote.Question.SCORE):
        came_to = voting.outcome([vote.score for vote in scores])
        if came_to.reward is None:
            opinion = replace(opinion, note=Reason.NO_QUORUM)
        else:
            opinion = replace(opinion, reward=came_to.reward, reward_from="votes", confidence=came_to.confidence)
    if readings := votes.get(Vote.Question.HINT):
        accepted = accepted_hints(readings)
        if accepted and seen.has_tool_text:
            # The judge reads what it had seen as well as what came back: a tool's text may word the hint either way.
            opinion = replace(opinion, note=Reason.HINT_WAITS)
        elif accepted:
            opinion = replace(opinion, hints=accepted, hint_from="votes")
        elif voting.outcome([vote.score for vote in readings]).reward is None:
            opinion = replace(opinion, note=Reason.NO_QUORUM)
    return opinion


def accepted_hints(votes: Sequence[Vote]) -> tuple[str, ...]:
    """The usable hints of a round, each once, if a quorum of its votes brought one; else none."""
    usable = [vote.hint for vote in votes if vote.score == 1 and vote.hint]
    if not voting.is_accepted([vote.score for vote in votes], len(usable)):
        return ()
    return tuple(dict.fromkeys(usable))


def cast(
    turn: Turn,
    seen: Evidence,
    questions: Sequence[Vote.Question],
    *,
    who: Judge,
    priority: int = judges.PRIORITY,
) -> dict[Vote.Question, list[Vote]]:
    """m votes on each question, all asked at once; failed ones are kept and asked for once more.

    Votes this judge gave on the same evidence before (a worker died, or the task ran twice) count and are not asked
    for again. Returns the m that count, failed ones only where no readable one could be had. Raises EngineUnavailable.
    """
    counted = {question: _readable(turn, seen, question, who) for question in questions}
    failed: dict[Vote.Question, list[Vote]] = {question: [] for question in questions}
    for _ in range(ATTEMPTS):
        missing = [
            (question, index)
            for question in questions
            for index in range(settings.JUDGE_VOTES)
            if index not in {vote.index for vote in counted[question]}
        ]
        if not missing:
            break
        answers = judges.ask(who, [_messages(question, seen) for question, _ in missing], priority=priority)
        if all(said.unreachable for said in answers):
            raise EngineUnavailable(answers[0].failure)
        for question in questions:
            failed[question] = []
        for (question, index), said in zip(missing, answers, strict=True):
            vote = read(turn, seen, question, index, said, who=who)
            vote.save()
            (failed if vote.score is None else counted)[question].append(vote)
    return {question: counted[question] + failed[question] for question in questions}


def read(turn: Turn, seen: Evidence, question: Vote.Question, index: int, said: judges.Said, *, who: Judge) -> Vote:
    """One answer as a vote, not yet saved: a score and a hint where they can be read, else why not."""
    vote = Vote(
        turn=turn,
        question=question,
        index=index,
        judge=who.name,
        prompt_version=_version(question),
        evidence=seen.digest,
        raw=said.text,
        failure=said.failure,
        seconds=said.seconds,
        tokens=said.tokens,
    )
    if said.failure:
        return vote
    if question == Vote.Question.SCORE:
        vote.score = voting.score_of(said.text)
    else:
        vote.score = voting.decision_of(said.text)
        hint = voting.hint_of(said.text) if vote.score == 1 else ""
        wrong = hints.fault(hint, seen.reply) if hint else "no hint between the markers"
        if hint in prompts.EXAMPLE_HINTS:
            wrong = "copied from the judge's own instructions"
        if vote.score == 1 and wrong:
            vote.score, vote.failure = None, f"unusable hint: {wrong}"
        else:
            vote.hint = hint
    if vote.score is None and not vote.failure:
        vote.failure = "unreadable: no boxed score"
    return vote


def _readable(turn: Turn, seen: Evidence, question: Vote.Question, who: Judge) -> list[Vote]:
    votes = Vote.objects.filter(
        turn=turn,
        question=question,
        judge=who.name,
        prompt_version=_version(question),
        evidence=seen.digest,
        score__isnull=False,
        index__lt=settings.JUDGE_VOTES,
    )
    return list({vote.index: vote for vote in votes}.values())


def _messages(question: Vote.Question, seen: Evidence) -> judges.Messages:
    return prompts.score(seen) if question == Vote.Question.SCORE else prompts.hint(seen)


def _version(question: Vote.Question) -> str:
    return prompts.SCORE_VERSION if question == Vote.Question.SCORE else prompts.HINT_VERSION


def _silence(opinion: Opinion, seen: Evidence) -> Reason:
    """Why an opinion makes no sample."""
    if opinion.reward or opinion.hints:
        return Reason.NOT_ASKED
    if opinion.note:
        return opinion.note
    if not seen.next_role and seen.reward is None:
        return Reason.NO_SIGNAL
    return Reason.NEUTRAL


def _written(turn: Turn, seen: Evidence, verdict: Verdict, renderer: Renderer) -> bool:
    """Write the verdict and move the turn, all or nothing. False: what it rests on changed meanwhile."""
    opinion, reading = verdict.opinion, verdict.reading
    lesson = reading.best(opinion.reward) if reading else None
    try:
        with transaction.atomic():
            # The session first, as whoever takes it off the record does: of the two, one waits for the other.
            Session.objects.select_for_update().get(pk=turn.session_id)
            current = Turn.objects.select_for_update().select_related("session").get(pk=turn.pk)
            if current.status != Turn.Status.OBSERVED or evidence.of(current) != seen:
                return False
            if samples.unfit(current) != samples.unfit(turn):
                return False
            judgement = Judgement.objects.select_related("sample", "learned").filter(turn=turn).first()
            judgement = judgement or Judgement(turn=turn)
            if samples.is_held(judgement):
                return False
            kept_out = samples.entered(judgement, verdict.sample)
            judgement.reward, judgement.reward_from = opinion.reward, opinion.reward_from
            judgement.confidence = opinion.confidence
            judgement.hint, judgement.hint_from = verdict.hint, opinion.hint_from if verdict.hint else ""
            judgement.teacher = teacher.heat_map(turn, reading, lesson, renderer) if reading and lesson else {}
            judgement.reason = kept_out or verdict.reason
            judgement.evidence = seen.text if seen.next_role else ""
            judgement.judged_at = timezone.now()
            judgement.save()
            if kept_out or judgement.learned is not None:
                _mark_late(turn, judgement)
            current.move(Turn.Status.JUDGED)
    except IllegalMove as error:
        log.info("turn %s changed while it was judged, once more: %s", turn.pk, error)
        return False
    return True


def _mark_late(turn: Turn, judgement: Judgement | None) -> None:
    """Mark what was said after the sample had been claimed."""
    sample = judgement and (judgement.learned or judgement.sample)
    if sample and sample.run:
        Feedback.objects.standing().filter(turn=turn, created_at__gt=sample.run.created_at).update(late=True)
