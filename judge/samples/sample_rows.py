"""From a verdict to one sample, or to the reason why there is none.

| hint | reward | sample                                   |
|------|--------|------------------------------------------|
| yes  | ±1     | both signals                             |
| yes  | 0/none | distillation only                        |
| no   | ±1     | reward only; no noise stands in for a teacher |
| no   | 0/none | none, and the reason is kept             |

A reply that a person wrote instead stands beside any of these, where the recipe learns from it (w_sft), and is a signal
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext_noop

from chat import clients
from chat.models import Turn
from chat.rendering.renderer import MessagesRefused, Renderer
from chat.search import keeping
from judge.models import Judgement
from judge.samples import exam_questions, pooling, redaction
from judge.samples.redaction import Clean, StillPersonal
from judge.samples.teacher import HintedReply, LaidOutAnew, TooLong
from judge.votes.evidence import Evidence, text_of
from training.config import Recipe
from training.models import Sample
from training.provenance import taints


class Reason(StrEnum):
    """Why a turn does not teach, as a person reads it. Rows keep it in English, and pages translate it. Its name in
    lower case is what the ledger counts."""

    SIDE = gettext_noop("a side request never teaches")
    IMPORTED = gettext_noop("it was imported: another model wrote it, so there are no tokens of ours to learn from")
    UNCOUNTED = gettext_noop("it is no step of an attempt that counts")
    OFF = gettext_noop("learning is off here")
    STOPPED = gettext_noop("the reply was stopped before it was whole")
    TRUNCATED = gettext_noop("the reply was cut off at its length limit")
    EMPTY = gettext_noop("the reply is empty")
    PICTURE = gettext_noop("its prompt holds a picture, and the learner reads text only: it does not train yet")
    HELD_OUT = gettext_noop("its prompt belongs to the exam of candidates, which never trains")
    KEPT = gettext_noop("it is kept for examining: the gate asks candidates about it, so it never trains")
    NO_SIGNAL = gettext_noop("nothing came back that says how it went")
    NO_QUORUM = gettext_noop("too few of the judge's votes could be read")
    NEUTRAL = gettext_noop("neutral, and no hint")
    MARKS_LOST = gettext_noop("it cannot be told which of its tokens wrote the words that were marked")
    UNCLEAR = gettext_noop("unclear: the judge is not sure enough")
    NEW_TOPIC = gettext_noop("they turned to another subject, which says nothing of this reply")
    UNMEASURED = gettext_noop("no judge was measured yet: votes are cast, and count for nothing until one is")
    TIED = gettext_noop("the votes balance: neutral, until a person decides")
    NOT_ASKED = gettext_noop("the recipe does not learn from this kind of signal")
    UNTRUSTED = gettext_noop(
        "only votes speak for it, and this judge's votes do not teach (JUDGE_URL names a better one)"
    )
    WISH_WAITS = gettext_noop(
        "what was written speaks of this reply alone: its person is asked what holds for every one"
    )
    HINT_WAITS = gettext_noop("its hint waits for a person")
    HINT_REJECTED = gettext_noop("its hint was rejected")
    LEARNED = gettext_noop("it was learned already")
    WITHDRAWN = gettext_noop("withdrawn after it was learned")
    PERSONAL = gettext_noop("personal data in it could not be removed")
    NO_JUDGE = gettext_noop("no judge is asked at present: each was wrong too often, or none is set up")
    # Of those below, the verdict keeps the whole sentence (judge.samples.teacher.Unreadable); these are its kinds.
    WEIGHTS_GONE = gettext_noop("the weights that served it are gone")
    TOO_LONG = gettext_noop("with its hint the prompt is too long for the model")
    LAID_OUT_ANEW = gettext_noop("the model lays this conversation out differently now")
    NOT_SCORED = gettext_noop("the engine would not score it")
    UNREADABLE = gettext_noop("it cannot be scored as it was served any more")

    @property
    def code(self) -> str:
        return self.name.lower()

    @classmethod
    def code_of(cls, said: str) -> str:
        """The code of a verdict's reason in words; empty for none, `unreadable` for words that are not listed.

        >>> Reason.code_of("neutral, and no hint"), Reason.code_of("")
        ('neutral', '')
        """
        known = next((one for one in cls if one == said), cls.UNREADABLE)
        return known.code if said else ""


SUPERSEDED = gettext_noop("superseded by a later verdict")

NOTHING: dict[str, Any] = {
    "prompt_ids": [], "response_ids": [], "mask": [], "behaviour_logprobs": [], "sampled_logprobs": [], "rewards": [],
    "teacher_prompt_ids": None, "rewrite_ids": None, "person": "", "conversation": None,
}  # fmt: skip
"""A sample without what was said in it: what stays is that there was one."""


def unfit(turn: Turn, seen: Evidence | None = None, recipe: Recipe | None = None) -> Reason | None:
    """Why this turn could not teach whatever was said of it; None when it may.

    A reply that was cut at its length teaches words alone: guidance and accepted hints over the tokens that were
    served, and a rewrite. So a `recipe` that learns none of the words that were `seen` makes nothing of it; what it
    would do with a reward, which may be for the missing end, does not matter."""
    if not (turn.learns and turn.session.learns):
        return Reason.OFF  # before all others: of those a verdict keeps what was said
    if turn.line != Turn.Line.MAIN:
        return Reason.IMPORTED if turn.kind == keeping.IMPORTED else Reason.SIDE
    if turn.is_cut:
        has_rewrite = seen is not None and bool(seen.rewrite.strip())
        if recipe is not None and not (recipe.w_opd or (recipe.w_sft and has_rewrite)):
            return Reason.TRUNCATED
    elif turn.finish_reason not in ("stop", "tool_calls"):
        return Reason.STOPPED
    if not turn.response_ids:
        return Reason.EMPTY
    if turn.pictures:
        return Reason.PICTURE
    return Reason.HELD_OUT if is_held_out(turn) else None


def is_held_out(turn: Turn) -> bool:
    """True when what it answers is a prompt of the exam."""
    last = clients.strip_messages(turn.messages, turn.client)[-1:]
    return any(message["role"] == "user" and exam_questions.includes(text_of(message)) for message in last)


def signals(reward: int | None, hints: tuple[str, ...], recipe: Recipe) -> tuple[int, tuple[str, ...]]:
    """What of the verdict the recipe learns from: a reward (0: none) and the accepted hints."""
    return (reward or 0) if recipe.w_rl else 0, hints if recipe.w_opd else ()


def drafted(
    turn: Turn,
    reward: int,
    lesson: HintedReply | None,
    behaviour_logprobs: Sequence[float],
    mask: Sequence[int] = (),
    rewards: Sequence[int] = (),
    rewrite_ids: Sequence[int] = (),
    *,
    voted_hint: bool = False,
    voted_reward: bool = False,
) -> Sample:
    """The sample of this turn, not yet saved. Raises ValueError when lengths disagree or nothing would be learned.

    `turn` is the turn as it may be learned from (judge.samples.redaction.of): where something personal was removed it
    has no sampled log-probs, which belong to other ids, and `mask` keeps the placeholders from being learned. `rewards`
    are those of single tokens, where words were marked: then `reward` is only shown. `rewrite_ids` are what a person
    wrote in place of the reply (`rewritten`). `voted_hint`: no person worded the lesson's hint, or decided on it.
    `voted_reward`: judges alone said how good the reply was."""
    if not (any(rewards) if rewards else reward) and lesson is None and not rewrite_ids:
        raise ValueError("a sample without a signal would fill a batch and teach nothing")
    sample = row_of(turn, behaviour_logprobs, mask, rewards)
    sample.teacher_prompt_ids = None if lesson is None else list(lesson.prompt_ids)
    sample.voted_hint = lesson is not None and voted_hint
    sample.voted = voted_reward and not (rewards or rewrite_ids) and (lesson is None or voted_hint)
    sample.reward = float(reward)
    sample.rewrite_ids = list(rewrite_ids) or None
    return sample


def row_of(
    turn: Turn, behaviour_logprobs: Sequence[float], mask: Sequence[int] = (), rewards: Sequence[int] = ()
) -> Sample:
    """A sample of what this turn said, not yet saved, with nothing that is learned of it. Raises ValueError when
    lengths disagree."""
    named = {
        "behaviour_logprobs": behaviour_logprobs,
        "sampled log-probs": turn.logprobs,
        "mask": mask,
        "rewards": rewards,
    }
    for name, values in named.items():
        if len(values) != len(turn.response_ids) and (values or name == "behaviour_logprobs"):
            raise ValueError(f"{len(values)} {name} for {len(turn.response_ids)} response tokens")
    return Sample(
        person=str(turn.session.user_id),
        conversation=turn.session_id,
        checkpoint=turn.checkpoint,
        prompt_ids=turn.prompt_ids,
        response_ids=turn.response_ids,
        mask=list(mask),
        behaviour_logprobs=list(behaviour_logprobs),
        sampled_logprobs=turn.logprobs,
        temperature=turn.sampling.get("temperature", 1.0),
        rewards=list(rewards),
    )


def rewritten(clean: Clean, words: str, renderer: Renderer) -> list[int]:
    """What a person wrote in place of the reply, as the model would have written it after the sample's prompt.

    Raises StillPersonal when there is something personal in it: a placeholder in its place would be learned by heart.
    TooLong when prompt and rewrite do not fit the window, LaidOutAnew when the template cannot lay them out.
    """
    turn = clean.turn
    if clean.hint(words) != words:
        raise StillPersonal(
            gettext_noop("What was written instead holds personal data, so it is not learned word for word.")
        )
    tools = None if turn.asked.get("tool_choice") == "none" else turn.tools or None
    try:
        ids = renderer.reply_ids(turn.messages, words, tools)
    except MessagesRefused as error:
        raise LaidOutAnew(str(error)) from error
    if len(turn.prompt_ids) + len(ids) > renderer.context_length:
        raise TooLong(gettext_noop("What was written instead is longer than the model's window."))
    redaction.check(renderer.decode(ids, controls=True), clean.remover.wanted)
    return ids


def is_claimed(judgement: Judgement | None) -> bool:
    """True while a run is learning this turn: what is said now waits until that run has ended."""
    if judgement is None:
        return False
    is_own = judgement.sample is not None and judgement.sample.status == Sample.Status.CLAIMED
    return is_own or pooling.is_claimed(judgement.turn_id)


def entered(judgement: Judgement, sample: Sample | None) -> str:
    """Put `sample` in the place of the judgement's earlier one; None takes the earlier one away.

    A sample that waits is superseded; the same signals leave it where it is. One that was learned stays, and late
    feedback may enter once beside it. Returns why nothing entered, empty when it did. Call it inside a transaction;
    IllegalMove says that a run has claimed the earlier sample meanwhile.
    """
    before = judgement.sample
    if sample is not None:  # what was withdrawn is said again, or is learned of what was said besides
        withdrawn = pooling.of(judgement.turn_id).filter(drop_reason=taints.WITHDRAWN)
        taints.restore(one for one in withdrawn if _teach_the_same(one, sample))
    if before is not None and before.status == Sample.Status.READY:
        if sample is not None and _teach_the_same(before, sample) and _are_vouched_alike(before, sample):
            return ""
        before.move(Sample.Status.STALE, drop_reason=SUPERSEDED, **NOTHING)  # nothing leads to it any more
        judgement.sample = None
    elif before is not None and before.status == Sample.Status.TRAINED:
        if sample is None:
            pooling.drop(pooling.of(judgement.turn_id), SUPERSEDED, **NOTHING)
            return Reason.WITHDRAWN
        is_vouched = before.voted_hint and not sample.voted_hint  # before, no teacher may have heard it
        if (
            judgement.learned is not None
            or not before.response_ids
            or (_teach_the_same(before, sample) and not is_vouched)
        ):
            return Reason.LEARNED
        judgement.learned = before
    pooling.drop(pooling.of(judgement.turn_id), SUPERSEDED, **NOTHING)
    if sample is not None:
        pooling.enter(sample, judgement.turn_id)
        judgement.sample = sample
    return ""


def _are_vouched_alike(one: Sample, other: Sample) -> bool:
    return (one.voted, one.voted_hint) == (other.voted, other.voted_hint)


def _teach_the_same(one: Sample, other: Sample) -> bool:
    """True when they say the same, of the same words: settings may remove more of them now than before."""
    names = ("reward", "rewards", "teacher_prompt_ids", "rewrite_ids", "prompt_ids", "response_ids", "mask")
    return all(getattr(one, name) == getattr(other, name) for name in names)
