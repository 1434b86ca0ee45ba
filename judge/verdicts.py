"""One turn's verdict: what people said decides; where they said nothing, votes do. Safe to run twice."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from chat.models import Session, Turn
from chat.rendering.renderer import Renderer
from core.errors import IllegalMove
from feedback.models import Feedback
from gpu_workers.engine.interface import Engine
from judge import off_record, steps
from judge.hints import deletion, plan_rows, proposals
from judge.hints.plans import Offer, Plan
from judge.models import Judgement
from judge.samples import composing, personal_holdout, sample_rows, teacher, teaching
from judge.samples.sample_rows import Reason
from judge.samples.teaching import Lesson
from judge.sittings import sitting
from judge.votes import deciding, evidence, judges, polling
from judge.votes.evidence import Evidence
from judge.votes.judge import Panel
from judge.votes.opinions import Opinion, Silence
from training.config import Recipe
from training.models import Sample

log = logging.getLogger(__name__)

ROUNDS = 5
"""How often a verdict is begun again because evidence arrived meanwhile; then the next sweep takes it."""


@dataclass(frozen=True)
class Verdict:
    """An opinion, and the sample it makes of the turn."""

    opinion: Opinion
    plan: Plan | None = None
    """What becomes of the turn's hints; None: nothing is touched."""
    offer: Offer | None = None
    """What of the plan was chosen."""
    lesson: Lesson | None = None
    """The turn as the teacher read it; None: no teacher was asked, or the reply cannot be read any more."""
    sample: Sample | None = None
    silence: Silence | None = None
    """Why there is no sample, or what is missing in it."""

    @property
    def hint(self) -> str:
        """What is taught; empty where nothing is, or where a person is waited for."""
        if self.plan is None:
            return "".join(self.opinion.hints)
        if self.lesson is None:
            return self.plan.words_with(self.offer)
        if self.lesson.taught is not None:
            return self.lesson.taught.hint
        if self.sample is not None and self.lesson.unshown is not None:  # what was said of the reward teaches alone
            return ""
        return self.lesson.words

    @property
    def hint_from(self) -> str:
        """Whose words the hint is; empty without a hint."""
        if not self.hint:
            return ""
        if self.plan is None:
            return self.opinion.hint_from
        return self.plan.hint_from(self.offer, self.opinion)

    @property
    def is_off(self) -> bool:
        """True when the turn is off the record: then nothing is kept of what was said."""
        return self.silence is not None and self.silence.reason == Reason.OFF

    @property
    def is_corrected(self) -> bool:
        """True when its sample teaches with words: a person's, or a hint that was accepted."""
        return self.sample is not None and bool(self.hint or self.sample.rewrite_ids)


def judge(turn_id: str, *, who: Panel, engine: Engine, renderer: Renderer, recipe: Recipe) -> bool:
    """Bring an observed turn to its verdict; a step of an episode with all the others that are due, once the episode
    has ended. True when this call wrote one.

    Does nothing for a turn that is not observed, that another worker is judging, or that a run is learning just now
    (what is said meanwhile waits for the run's end). Raises EngineUnavailable when no judge could be asked.
    """
    if (episode := steps.episode_of(turn_id)) is not None:
        return steps.judge(episode, who=who, engine=engine, renderer=renderer, recipe=recipe)
    with sitting(f"turn {turn_id}", for_s=polling.ATTEMPTS * settings.JUDGE_DEADLINE_S + 30) as seat:
        if seat is None:
            return False
        for _ in range(ROUNDS):
            turn = Turn.objects.select_related("session", "checkpoint").filter(pk=turn_id).first()
            if turn is None or turn.status != Turn.Status.OBSERVED:  # deleted meanwhile, or judged
                return False
            standing = Judgement.objects.select_related("sample__run").filter(turn=turn).first()
            if sample_rows.is_claimed(standing):
                _mark_late(turn, standing)
                return False
            seen = evidence.of(turn)
            verdict = reach(turn, seen, who=who, engine=engine, renderer=renderer, recipe=recipe)
            if _write(turn, seen, verdict, renderer, recipe):
                return True
        return False


def reach(turn: Turn, seen: Evidence, *, who: Panel, engine: Engine, renderer: Renderer, recipe: Recipe) -> Verdict:
    """The verdict on this evidence: decide, teach, compose. Nothing is written but votes."""
    unfit = sample_rows.unfit(turn, seen, recipe)
    if unfit == Reason.PICTURE:
        return Verdict(
            deciding.decide(turn, seen, who=who, renderer=renderer, recipe=recipe), silence=Silence.of(unfit)
        )
    if unfit:
        # What was said of a turn that cannot teach is kept with its verdict, but for one off the record.
        said = Opinion() if unfit == Reason.OFF else deciding.without_votes(turn, seen, renderer)
        return Verdict(said, silence=Silence.of(unfit))
    opinion = deciding.decide(turn, seen, who=who, renderer=renderer, recipe=recipe)
    plan = proposals.plan(turn, seen, opinion, trusted=judges.teaches())
    signals = teaching.find_signals(turn, seen, opinion, plan, recipe)
    lesson = teaching.teach(turn, seen, opinion, plan, signals, engine=engine, renderer=renderer, recipe=recipe)
    if isinstance(lesson, Silence):
        # Without a teacher no wording can be chosen, but what a person said themselves still stands.
        return Verdict(opinion, plan, plan.best(None), silence=lesson)
    sample = composing.compose(lesson, signals, opinion, seen, plan, renderer)
    if isinstance(sample, Silence):
        return Verdict(opinion, plan, lesson.offer, lesson, silence=sample)
    missing = composing.left_out(sample, lesson, signals, opinion, seen, plan)
    return Verdict(opinion, plan, lesson.offer, lesson, sample, missing)


def _write(turn: Turn, seen: Evidence, verdict: Verdict, renderer: Renderer, recipe: Recipe) -> bool:
    """Write the verdict and move the turn, all or nothing. False: what it rests on changed meanwhile."""
    try:
        with transaction.atomic():
            if verdict.is_off:  # forgetting deletes hints of other conversations too: their sessions before the turn
                deletion.lock_sessions([turn.session_id])
            # The session first, as the request that takes it off the record does: of the two, one waits for the other.
            Session.objects.select_for_update().get(pk=turn.session_id)
            current = Turn.objects.select_for_update().select_related("session").get(pk=turn.pk)
            if not _is_current(turn, current, seen, verdict, recipe):
                return False
            judgement = Judgement.objects.select_related("sample", "learned").filter(turn=turn).first()
            judgement = judgement or Judgement(turn=turn)
            if sample_rows.is_claimed(judgement):
                return False
            if verdict.is_off:
                off_record.forget(current, judgement)
            heat = _heat_map(verdict, renderer)
            kept_out = _enter(judgement, current, verdict, recipe)
            _fill(judgement, seen, verdict, heat)
            if verdict.plan is not None:
                gain = verdict.lesson.gain(verdict.opinion.reward_of_whole(turn)) if verdict.lesson else None
                plan_rows.write(verdict.plan, verdict.offer, current, seen, gain=gain, teacher=heat)
            judgement.save()
            if kept_out or judgement.learned is not None:
                _mark_late(turn, judgement)
            current.move(Turn.Status.JUDGED)
    except IllegalMove as error:
        log.info("turn %s changed while it was judged, once more: %s", turn.pk, error)
        return False
    return True


def _is_current(turn: Turn, current: Turn, seen: Evidence, verdict: Verdict, recipe: Recipe) -> bool:
    """True while all that the verdict rests on is as it was read: `turn` then, `current` now, in the lock."""
    return (
        current.status == Turn.Status.OBSERVED
        and evidence.of(current) == seen
        and sample_rows.unfit(current, seen, recipe) == sample_rows.unfit(turn, seen, recipe)
        and current.observed_at == turn.observed_at
        and (verdict.plan is None or plan_rows.is_current(verdict.plan, current))
    )


def _enter(judgement: Judgement, turn: Turn, verdict: Verdict, recipe: Recipe) -> Reason | str:
    """Put the sample in place of the turn's earlier one, unless the gate is to ask about this turn; and say in the
    judgement why nothing teaches. Returns why an earlier sample stayed, empty when none did."""
    judgement.held_out = judgement.held_out or (
        verdict.is_corrected and personal_holdout.takes(turn, judgement, recipe)
    )
    is_kept = judgement.held_out and verdict.sample is not None
    kept_out = sample_rows.entered(judgement, None if is_kept else verdict.sample)
    silence = Silence.of(Reason.KEPT) if is_kept else verdict.silence
    judgement.reason = kept_out or (silence.reason if silence else "")
    judgement.reason_code = Reason.code_of(kept_out) or (silence.code if silence else "")
    return kept_out


def _fill(judgement: Judgement, seen: Evidence, verdict: Verdict, heat: dict[str, Any]) -> None:
    """What the judgement says of reward and hint."""
    opinion = verdict.opinion
    judgement.reward, judgement.reward_from = opinion.reward, opinion.reward_from
    judgement.confidence, judgement.rule, judgement.topic = opinion.confidence, opinion.rule, opinion.topic
    judgement.hint, judgement.hint_from = verdict.hint, verdict.hint_from
    judgement.teacher = heat if verdict.hint else {}
    judgement.evidence = seen.text if seen.next_role and not verdict.is_off else ""
    judgement.judged_at = timezone.now()


def _heat_map(verdict: Verdict, renderer: Renderer) -> dict[str, Any]:
    """What a reviewer sees of the hint that stands or waits; empty where no teacher read it."""
    lesson = verdict.lesson
    if lesson is None or lesson.shown is None:
        return {}
    return teacher.heat_map(lesson.clean.turn, lesson.reading, lesson.shown, renderer, choice=lesson.choice)


def _mark_late(turn: Turn, judgement: Judgement | None) -> None:
    """Mark what was said after the sample had been claimed."""
    sample = judgement and (judgement.learned or judgement.sample)
    if sample and sample.run:
        Feedback.objects.standing().filter(turn=turn, created_at__gt=sample.run.created_at).update(late=True)
