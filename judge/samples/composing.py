"""Step 3 of a verdict: compose the sample that the learner takes, or say why there is none."""

from __future__ import annotations

from chat.rendering.renderer import Renderer
from judge.hints.plans import Plan
from judge.samples import sample_rows
from judge.samples.sample_rows import Reason
from judge.samples.teacher import Unreadable
from judge.samples.teaching import Lesson, why_silent
from judge.votes.evidence import Evidence
from judge.votes.opinions import Opinion, Signals, Silence
from training.models import Sample


def compose(
    lesson: Lesson, signals: Signals, opinion: Opinion, seen: Evidence, plan: Plan, renderer: Renderer
) -> Sample | Silence:
    """The sample of what this lesson and these signals teach, not yet saved."""
    clean = lesson.clean
    token_rewards = clean.carried(signals.token_rewards, 0) if signals.token_rewards else []
    if opinion.reward_from == "thumb" and not any(token_rewards):
        token_rewards = []  # all that was marked was personal: the thumb is about the reply as a whole
    rewrite_ids: list[int] = []
    lost_rewrite: Unreadable | None = None
    try:
        rewrite_ids = sample_rows.rewritten(clean, signals.rewrite, renderer) if signals.rewrite else []
    except Unreadable as error:  # what else was said may still teach
        lost_rewrite = error
    has_reward = any(token_rewards) if token_rewards else bool(signals.reward)
    if not has_reward and lesson.taught is None and not rewrite_ids:
        if lost_rewrite is not None:
            return Silence.of_error(lost_rewrite)
        if token_rewards:
            return Silence.of(Reason.MARKS_LOST)
        return Silence.of_error(lesson.unshown) if lesson.unshown else why_silent(opinion, seen, plan, lesson.offer)
    is_voted = plan.hint_from(lesson.offer, opinion) == "votes"
    sample = sample_rows.drafted(
        clean.turn,
        signals.reward,
        lesson.taught,
        lesson.reading.behaviour_logprobs,
        mask=clean.mask,
        rewards=token_rewards,
        rewrite_ids=rewrite_ids,
        voted_hint=is_voted and not plan.is_a_persons(lesson.offer),
        voted_reward=opinion.reward_from in ("", "votes"),
    )
    sample.redactions = clean.told(lesson.words if lesson.taught else "")
    return sample


def left_out(
    sample: Sample, lesson: Lesson, signals: Signals, opinion: Opinion, seen: Evidence, plan: Plan
) -> Silence | None:
    """What was said of the turn and is not in its sample; None where nothing is missing."""
    if lesson.unshown:
        return Silence.of_error(lesson.unshown)
    if plan.waits_with(lesson.offer):
        return Silence.of(Reason.HINT_WAITS)
    if seen.unworded:
        return Silence.of(Reason.WISH_WAITS)
    if signals.token_rewards and not sample.rewards:
        return Silence.of(Reason.MARKS_LOST)
    return Silence.of(opinion.note) if opinion.note else None
