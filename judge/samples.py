"""From a verdict to one sample, or to the reason why there is none.

| hint | reward | sample                                   |
|------|--------|------------------------------------------|
| yes  | ±1     | both signals                             |
| yes  | 0/none | distillation only                        |
| no   | ±1     | reward only; no noise stands in for a teacher |
| no   | 0/none | none, and the reason is kept             |
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from chat import clients
from chat.models import Turn
from judge import heldout
from judge.evidence import text_of
from judge.models import Judgement
from judge.teacher import Lesson
from training.config import Recipe
from training.models import Sample


class Reason(StrEnum):
    """Why a turn does not teach, as a person reads it."""

    SIDE = "a side request never teaches"
    OFF = "learning is off here"
    STOPPED = "the reply was stopped before it was whole"
    TRUNCATED = "the reply was cut off at its length limit"
    EMPTY = "the reply is empty"
    HELD_OUT = "its prompt belongs to the exam of candidates, which never trains"
    NO_SIGNAL = "nothing came back that says how it went"
    NO_QUORUM = "too few of the judge's votes could be read"
    NEUTRAL = "neutral, and no hint"
    NOT_ASKED = "the recipe does not learn from this kind of signal"
    UNTRUSTED = "only votes speak for it, and this judge's votes do not teach (JUDGE_URL names a better one)"
    HINT_WAITS = "its hint comes from a tool's text and waits for a person"
    LEARNED = "it was learned already"
    WITHDRAWN = "withdrawn after it was learned"


SUPERSEDED = "superseded by a later verdict"


def unfit(turn: Turn) -> Reason | None:
    """Why this turn could not teach whatever was said of it; None when it may."""
    if turn.line != Turn.Line.MAIN:
        return Reason.SIDE
    if not (turn.learns and turn.session.learns):
        return Reason.OFF
    if turn.finish_reason == "length":
        return Reason.TRUNCATED
    if turn.finish_reason not in ("stop", "tool_calls"):
        return Reason.STOPPED
    if not turn.response_ids:
        return Reason.EMPTY
    last = clients.stripped(turn.messages, turn.client)[-1:]
    if any(message["role"] == "user" and heldout.holds(text_of(message)) for message in last):
        return Reason.HELD_OUT
    return None


def signals(reward: int | None, hints: tuple[str, ...], recipe: Recipe) -> tuple[int, tuple[str, ...]]:
    """What of the verdict the recipe learns from: a reward (0: none) and the accepted hints."""
    return (reward or 0) if recipe.w_rl else 0, hints if recipe.w_opd else ()


def drafted(turn: Turn, reward: int, lesson: Lesson | None, old_logprobs: Sequence[float]) -> Sample:
    """The sample of this turn, not yet saved. Raises ValueError when lengths disagree or nothing would be learned."""
    if not reward and lesson is None:
        raise ValueError("a sample without a signal would fill a batch and teach nothing")
    for name, values in (("old_logprobs", old_logprobs), ("sampled log-probs", turn.logprobs)):
        if len(values) != len(turn.response_ids):
            raise ValueError(f"{len(values)} {name} for {len(turn.response_ids)} response tokens")
    return Sample(
        checkpoint=turn.checkpoint,
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids,
        old_logprobs=list(old_logprobs),
        sampled_logprobs=turn.logprobs,
        temperature=turn.sampling.get("temperature", 1.0),
        teacher_prompt_ids=None if lesson is None else list(lesson.prompt_ids),
        reward=float(reward),
    )


def is_held(judgement: Judgement | None) -> bool:
    """True while a run is learning this turn: what is said now waits until that run has ended."""
    sample = judgement.sample if judgement is not None else None
    return sample is not None and sample.status == Sample.Status.CLAIMED


def entered(judgement: Judgement, sample: Sample | None) -> str:
    """Put `sample` in the place of the judgement's earlier one; None takes the earlier one away.

    A sample that waits is superseded; the same signals leave it where it is. One that was learned stays, and late
    feedback may enter once beside it. Returns why nothing entered, empty when it did. Call it inside a transaction;
    IllegalMove says that a run has claimed the earlier sample meanwhile.
    """
    before = judgement.sample
    if before is not None and before.status == Sample.Status.READY:
        if sample is not None and _teach_the_same(before, sample):
            return ""
        before.move(Sample.Status.STALE, drop_reason=SUPERSEDED)
        judgement.sample = None
    elif before is not None and before.status == Sample.Status.TRAINED:
        if sample is None:
            return Reason.WITHDRAWN
        if judgement.learned is not None or _teach_the_same(before, sample):
            return Reason.LEARNED
        judgement.learned = before
    if sample is not None:
        sample.save()
        judgement.sample = sample
    return ""


def _teach_the_same(one: Sample, other: Sample) -> bool:
    return one.reward == other.reward and one.teacher_prompt_ids == other.teacher_prompt_ids
