"""One turn's verdict: what people said decides; where they said nothing, votes do. Safe to run twice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from chat.models import Session, Turn
from chat.offsets import OffsetsLost
from chat.rendering import Renderer
from core.errors import IllegalMove
from feedback.models import Feedback
from gpu_workers.engine import Engine
from judge import (
    choice,
    evidence,
    judges,
    marking,
    off_record,
    own_words,
    personal_holdout,
    polling,
    prompts,
    proposals,
    redaction,
    reviews,
    samples,
    standing,
    teacher,
)
from judge.evidence import Evidence
from judge.judges import Panel
from judge.models import Hint, Judgement, Overruling, Vote
from judge.polling import Ballot, Bench
from judge.proposals import Offer, Plan
from judge.redaction import Clean
from judge.samples import Reason
from judge.sittings import sitting
from judge.teacher import Lesson, Reading, Unreadable
from judge.voting import NEW
from training.config import Recipe
from training.models import Sample

log = logging.getLogger(__name__)

ATTEMPTS = polling.ATTEMPTS

ROUNDS = 5
"""How often a verdict is begun again because evidence arrived meanwhile; then the next sweep takes it."""

PATIENCE = timedelta(hours=6)
"""How long after it was observed a turn waits for votes that were late or never heard; then it goes without them."""


@dataclass(frozen=True)
class Opinion:
    """What the evidence comes to, before it is known whether it can teach."""

    reward: int | None = None
    reward_from: str = ""
    confidence: float | None = None
    """How likely the reward is right; where votes are not sure enough of any, what they lean to."""
    topic: str = ""
    """`new`: votes say that the subject changes."""
    hints: tuple[str, ...] = ()
    """A person's own words, or the hints that a quorum of votes proposes; what becomes of them is judge.proposals'."""
    hint_from: str = ""
    hint_confidence: float | None = None
    """How likely a change is asked for; 1 for a person's own words."""
    source: str = ""
    """Hint.Source of the least trusted text that the judge read, or `said`: it decides which policy holds."""
    may_accept: bool = False
    """The hints of the judges that worded it were measured, and are good enough for a policy to accept them."""
    note: Reason | None = None
    """What of the evidence could not be used."""
    rule: str = ""
    """The visible rule (judge.rules) that decided the reward."""


@dataclass(frozen=True)
class Verdict:
    """An opinion, and the sample it makes of the turn."""

    opinion: Opinion
    hint: str = ""
    """What is taught; empty where nothing is, or where a person is waited for."""
    hint_from: str = ""
    reading: Reading | None = None
    lesson: Lesson | None = None
    """The hint that stands or waits as the teacher was shown it: its heat map is drawn from it."""
    plan: Plan | None = None
    """What becomes of the turn's hints; None: nothing is touched."""
    offer: Offer | None = None
    """What of the plan was chosen."""
    sample: Sample | None = None
    reason: str = ""
    code: str = ""
    """The kind of reason, where `reason` is a sentence of its own."""
    choice: str = ""
    """Why it is this wording, where there were several."""
    taught: Turn | None = None
    """The turn as it is learned from, without what is personal in it: what `reading` speaks of."""

    @property
    def is_corrected(self) -> bool:
        """True when its sample teaches with words: a person's, or a hint that was accepted."""
        return self.sample is not None and bool(self.hint or self.sample.rewrite_ids)

    @property
    def waits(self) -> bool:
        """True when a person is to decide on its hint first."""
        if self.offer is not None:
            return not self.offer.words
        return self.plan is not None and self.plan.waits


def judge(turn_id: str, *, who: Panel, engine: Engine, renderer: Renderer, recipe: Recipe) -> bool:
    """Bring an observed turn to its verdict. True when this call wrote one.

    Does nothing for a turn that is not observed, that another worker is judging, or that a run is learning just now
    (what is said meanwhile waits for the run's end). Raises EngineUnavailable when no judge could be asked.
    """
    with sitting(f"turn {turn_id}", for_s=ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None:
            return False
        for _ in range(ROUNDS):
            turn = Turn.objects.select_related("session", "checkpoint").filter(pk=turn_id).first()
            if turn is None or turn.status != Turn.Status.OBSERVED:  # deleted meanwhile, or judged
                return False
            standing = Judgement.objects.select_related("sample__run").filter(turn=turn).first()
            if samples.is_claimed(standing):
                _mark_late(turn, standing)
                return False
            seen = evidence.of(turn)
            verdict = reach(turn, seen, who=who, engine=engine, renderer=renderer, recipe=recipe)
            if _written(turn, seen, verdict, renderer, recipe):
                return True
        return False


def reach(turn: Turn, seen: Evidence, *, who: Panel, engine: Engine, renderer: Renderer, recipe: Recipe) -> Verdict:
    """The verdict on this evidence. Votes are asked for only where people left open what the recipe needs."""
    if unfit := samples.unfit(turn, seen, recipe):
        if unfit == Reason.OFF:  # nothing of what was said is kept here
            return Verdict(Opinion(), reason=unfit)
        opinion = overruled(turn, stated(seen))
        said = redaction.hints_without(turn, (seen.correction,) if seen.correction else (), renderer)
        return Verdict(opinion, "".join(said), opinion.hint_from, reason=unfit)
    trusted = judges.teaches()
    decided = is_decided(seen, recipe, trusted=trusted)
    opinion = overruled(turn, stated(seen) if decided else voted(turn, seen, who=who, recipe=recipe))
    opinion = replace(opinion, hints=redaction.hints_without(turn, opinion.hints, renderer))
    untrusted = opinion.reward_from == "votes" and not trusted
    heard = reward_heard(turn, opinion)
    if turn.is_cut and (opinion.reward or seen.marks or not (opinion.hints or opinion.note)):
        opinion = replace(opinion, note=Reason.TRUNCATED)
    plan = proposals.plan(turn, seen, opinion, trusted=trusted)
    reward, wanted = samples.signals(None if untrusted else heard, plan.wanted, recipe)
    rewards, lost = marked(turn, seen, opinion, renderer) if recipe.w_rl and not turn.is_cut else ([], False)
    if lost:  # then a thumb speaks as one without marks
        reward = reward if opinion.reward_from == "thumb" else 0
        opinion = replace(opinion, note=Reason.MARKS_LOST)
    instead = seen.rewrite.strip() if recipe.w_sft and plan.takes_own and not turn.asked.get("opened") else ""
    if not reward and not any(rewards) and not wanted and not instead:
        return _without_sample(opinion, seen, plan, plan.best(None), untrusted=untrusted)
    try:
        clean = redaction.of(turn, renderer)
        worded = {one: clean.hint(one) for one in wanted}
        is_choice = len(plan.offers) > 1
        better = choice.better_reply(turn, seen) if is_choice and not turn.asked.get("opened") else ""
        reading = teacher.read(
            clean.turn,
            tuple(dict.fromkeys(worded.values())),
            engine,
            renderer,
            by=recipe.teacher,
            top=choice.TOP if is_choice else 0,
            better_ids=rewritten(clean, better, renderer)[0] if better else (),
        )
    except Unreadable as error:
        verdict = _without_sample(opinion, seen, plan, plan.best(None), untrusted=untrusted)
        return replace(verdict, reason=str(error)[:200], code=error.code)
    lessons = {one: reading.lesson(words) for one, words in worded.items() if words not in reading.unshown}
    unshown = {one: reading.unshown[words] for one, words in worded.items() if words in reading.unshown}
    measured = {one: reading.measured(lesson, heard) for one, lesson in lessons.items()}
    offer = plan.best(partial(choice.best, measured) if worded else None, unshown)
    words = offer.words if offer is not None else plan.words
    taught, not_shown = lessons.get(words), unshown.get(words)
    shown = taught or lessons.get(offer.shown if offer is not None else plan.shown)
    verdict = _without_sample(opinion, seen, plan, offer, untrusted=untrusted)
    because = plan.keeps.teacher.get("choice", "") if plan.keeps is not None else ""
    if offer is not None and offer.text in measured:
        because = choice.why(measured, [one.text for one in plan.shown_of(unshown)], offer.text)
    verdict = replace(verdict, hint=taught.hint if taught else words, reading=reading, lesson=shown, taught=clean.turn)
    verdict = replace(verdict, choice=because)
    if not_shown:
        verdict = replace(verdict, reason=str(not_shown)[:200], code=not_shown.code)
    rewards = clean.carried(rewards, 0) if rewards else []
    if rewards and not any(rewards) and opinion.reward_from == "thumb":  # what was marked was personal: so too here
        rewards, opinion = [], replace(opinion, note=Reason.MARKS_LOST)
    rewrite_ids, lost_rewrite = rewritten(clean, instead, renderer) if instead else ([], None)
    if not (any(rewards) if rewards else reward) and taught is None and not rewrite_ids:
        if lost_rewrite is not None:
            return replace(verdict, reason=str(lost_rewrite)[:200], code=lost_rewrite.code)
        # What was marked was personal, or the hint waits.
        return replace(verdict, reason=Reason.MARKS_LOST, code="") if rewards else verdict
    sample = samples.drafted(
        clean.turn,
        reward,
        taught,
        reading.behaviour_logprobs,
        mask=clean.mask,
        rewards=rewards,
        rewrite_ids=rewrite_ids,
        voted_hint=verdict.hint_from == "votes" and not proposals.is_a_persons(offer, plan.keeps),
        voted_reward=opinion.reward_from in ("", "votes"),
    )
    sample.redactions = clean.told(words if taught else "")
    if not_shown:  # what was said of the reward teaches alone
        return replace(verdict, hint="", sample=sample)
    waits = Reason.HINT_WAITS if verdict.waits else Reason.WISH_WAITS if seen.unworded else ""
    return replace(verdict, sample=sample, reason=waits or opinion.note or "")


def rewritten(clean: Clean, words: str, renderer: Renderer) -> tuple[list[int], Unreadable | None]:
    """The ids of what a person wrote instead, or why they are not learned from: what else was said still may be."""
    try:
        return samples.rewritten(clean, words, renderer), None
    except Unreadable as error:
        return [], error


def marked(turn: Turn, seen: Evidence, opinion: Opinion, renderer: Renderer) -> tuple[list[int], bool]:
    """The tokens' own rewards where people marked words of the reply and no source that outranks them decided; and
    whether they are lost. A thumb beside them rewards the rest where it says otherwise (judge.marking)."""
    if not seen.marks or opinion.reward_from not in ("thumb", "marks"):
        return [], False
    try:
        return marking.token_rewards(turn, seen.marks, renderer, seen.thumb or 0), False
    except OffsetsLost as error:
        log.warning("turn %s: %s", turn.pk, error)
        return [], True


def overruled(turn: Turn, opinion: Opinion) -> Opinion:
    """The opinion with a reviewer's word on the reward, where there is one: it outranks everything."""
    word = Overruling.objects.filter(turn=turn).first()
    if word is None:
        return opinion
    sure = None if word.reward is None else 1.0
    return replace(opinion, reward=word.reward, reward_from="reviewer", confidence=sure, rule="", topic="", note=None)


def stated(seen: Evidence) -> Opinion:
    """What needs no judge: a thumb, a test's verdict or a visible rule is the reward, a correction the hint."""
    correction = seen.correction
    return Opinion(
        reward=seen.reward,
        reward_from=seen.reward_from,
        rule=seen.rule,
        confidence=1.0 if seen.reward is not None else None,
        hints=(correction,) if correction else (),
        hint_from="guidance" if seen.guidance and correction else "rewrite" if correction else "",
    )


def is_decided(seen: Evidence, recipe: Recipe, *, trusted: bool = True) -> bool:
    """True when no vote could add what the recipe needs.

    A correction is enough where the recipe learns from hints, a thumb or a test where it learns from rewards; only
    a bad reply after which something came back still leaves open how it should have been done, and then a `trusted`
    judge is asked for it. Nothing came back: there is nothing to vote on.
    """
    if (recipe.w_opd and (seen.correction or seen.unworded)) or (recipe.w_sft and seen.rewrite):
        return True
    if not seen.next_role:
        return True
    if seen.reward is None:
        return False
    return not (trusted and recipe.w_opd and seen.reward < 0)


def voted(turn: Turn, seen: Evidence, *, who: Panel, recipe: Recipe) -> Opinion:
    """The opinion with the judges' votes where people left something open: a reward, and hints that are proposed. Every
    vote is kept.

    Votes that are not sure enough of a reward propose no hint either. A change of subject asks for nothing.

    Raises EngineUnavailable when no vote of a round could be cast because no judge answered, and while there is no
    quorum because votes were late or never heard: that says nothing of the reply, and the turn is asked about again.
    """
    questions = []
    if recipe.w_rl and seen.reward is None and not turn.is_cut:  # no reward falls on half a reply
        questions.append(Vote.Question.SCORE)
    if recipe.w_opd and not seen.correction:
        questions.append(Vote.Question.HINT)
    opinion = stated(seen)
    if polling.have_stopped(who):
        return replace(opinion, note=Reason.NO_JUDGE)
    ballots = [ballot_of(vote) for vote in cast(turn, seen, questions, who=who)]
    if timezone.now() - (turn.observed_at or turn.moved_at) < PATIENCE:
        polling.awaited(ballots)
    if polling.are_unknown(who):
        return replace(opinion, note=Reason.UNMEASURED)
    measures = polling.bench(who).measures
    found = polling.finding(ballots, measures)
    if Vote.Question.SCORE in questions:
        if found.score.is_unclear:
            return replace(opinion, confidence=found.score.confidence, note=Reason.UNCLEAR)
        if found.score.reward is None:
            opinion = replace(opinion, note=Reason.NO_QUORUM)
        else:
            opinion = replace(
                opinion,
                reward=found.score.reward,
                reward_from="votes",
                confidence=found.score.confidence,
                topic=NEW if found.score.is_new else "",
                note=Reason.NEW_TOPIC if found.score.is_new else None,
            )
    if Vote.Question.HINT in questions and not opinion.topic:
        if found.is_own_sure and (wish := own_words.wish_in(seen)):
            opinion = replace(
                opinion,
                hints=(wish,),
                hint_from="said",
                hint_confidence=found.asks_hint.confidence,
                source=Hint.Source.SAID,
            )
        elif found.hints:
            opinion = replace(
                opinion,
                hints=found.hints,
                hint_from="votes",
                hint_confidence=found.asks_hint.confidence,
                source=seen.source,
                may_accept=all(measures[who].hints_hold for who in {one.judge for one in ballots}),
            )
        elif found.asks_hint.reward is None:
            opinion = replace(opinion, note=Reason.NO_QUORUM)
    return opinion


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
    for attempt in range(ATTEMPTS):
        there = {(vote.question, vote.index) for vote in votes if vote.score is not None}
        missing = [(q, index) for q in questions for index in range(seated.m) if (q, index) not in there]
        if not missing:
            break
        asks = [seated.ask(ASKED[question], index, seen, attempt) for question, index in missing]
        answers = judges.ask(asks, priority=priority)
        polling.heard(answers)
        if attempt == 0:  # however long a judge is slow, its silence is kept once
            earlier = Vote.objects.filter(turn=turn, question__in=questions, evidence=seen.digest)
            earlier.filter(standing.unheard()).delete()
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


def _without_sample(opinion: Opinion, seen: Evidence, plan: Plan, offer: Offer | None, *, untrusted: bool) -> Verdict:
    """The verdict as it is when nothing is taught, with the reason why."""
    words = offer.words if offer is not None else plan.words
    verdict = Verdict(opinion, words, _hint_from(opinion, plan, offer), plan=plan, offer=offer)
    return replace(verdict, reason=_silence(opinion, seen, verdict, untrusted=untrusted))


def _hint_from(opinion: Opinion, plan: Plan, offer: Offer | None) -> str:
    """guidance | rewrite | votes | reviewer: whose words the turn learns with."""
    if offer is not None:
        return opinion.hint_from if offer.source in proposals.OWN_WORDS else "votes"
    row = plan.keeps
    if row is None:
        return ""
    if row.status == Hint.Status.EDITED or (row.status == Hint.Status.MERGED and row.decided_by_id is not None):
        return "reviewer"
    if row.source == Hint.Source.SAID:
        return "said"
    return opinion.hint_from or "guidance" if row.source == Hint.Source.PERSON else "votes"


def _silence(opinion: Opinion, seen: Evidence, verdict: Verdict, *, untrusted: bool) -> Reason:
    """Why a verdict makes no sample."""
    if untrusted and opinion.reward:
        return Reason.UNTRUSTED
    if verdict.waits:
        return Reason.HINT_WAITS
    if seen.unworded:
        return Reason.WISH_WAITS
    if opinion.note in (Reason.MARKS_LOST, Reason.TRUNCATED):
        return opinion.note
    if opinion.reward or verdict.hint or opinion.reward_from == "marks":
        return Reason.NOT_ASKED
    if opinion.note:
        return opinion.note
    if verdict.plan is not None and verdict.plan.is_refused:
        return Reason.HINT_REJECTED
    if opinion.reward_from == "reviewer":
        return Reason.NEUTRAL
    if not seen.next_role and seen.reward is None:
        return Reason.NO_SIGNAL
    return Reason.NEUTRAL


def reward_heard(turn: Turn, opinion: Opinion) -> int | None:
    """The reward, where it may be of the whole reply: a thumb on one that was cut may be for what is missing."""
    return None if turn.is_cut else opinion.reward


def _written(turn: Turn, seen: Evidence, verdict: Verdict, renderer: Renderer, recipe: Recipe) -> bool:
    """Write the verdict and move the turn, all or nothing. False: what it rests on changed meanwhile."""
    opinion, plan, reading, lesson = verdict.opinion, verdict.plan, verdict.reading, verdict.lesson
    try:
        with transaction.atomic():
            if verdict.reason == Reason.OFF:
                reviews.lock_sessions([turn.session_id])
            # The session first, as the request that takes it off the record does: of the two, one waits for the other.
            Session.objects.select_for_update().get(pk=turn.session_id)
            current = Turn.objects.select_for_update().select_related("session").get(pk=turn.pk)
            if current.status != Turn.Status.OBSERVED or evidence.of(current) != seen:
                return False
            if samples.unfit(current, seen, recipe) != samples.unfit(turn, seen, recipe):
                return False
            if current.observed_at != turn.observed_at:
                return False
            if plan is not None and not proposals.is_current(plan, current):
                return False
            judgement = Judgement.objects.select_related("sample", "learned").filter(turn=turn).first()
            judgement = judgement or Judgement(turn=turn)
            if samples.is_claimed(judgement):
                return False
            is_off = verdict.reason == Reason.OFF
            if is_off:
                off_record.forget(current, judgement)
            judgement.held_out = judgement.held_out or (
                verdict.is_corrected and personal_holdout.takes(current, judgement, recipe)
            )
            is_kept = judgement.held_out and verdict.sample is not None
            kept_out = samples.entered(judgement, None if is_kept else verdict.sample)
            reason, code = (Reason.KEPT, "") if is_kept else (verdict.reason, verdict.code)
            judgement.reward, judgement.reward_from = opinion.reward, opinion.reward_from
            judgement.confidence, judgement.rule = opinion.confidence, opinion.rule
            judgement.topic = opinion.topic
            judgement.hint, judgement.hint_from = verdict.hint, verdict.hint_from if verdict.hint else ""
            taught = verdict.taught or turn
            heat = {}
            if reading and lesson:
                heat = teacher.heat_map(taught, reading, lesson, renderer, choice=verdict.choice)
            judgement.teacher = heat if verdict.hint else {}
            if plan is not None:
                gain = reading.gain(lesson, reward_heard(turn, opinion)) if reading and lesson else None
                proposals.write(plan, verdict.offer, current, seen, gain=gain, teacher=heat)
            judgement.reason = kept_out or reason
            judgement.reason_code = Reason.code_of(kept_out) or code or Reason.code_of(reason)
            judgement.evidence = seen.text if seen.next_role and not is_off else ""
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
