"""Step 2 of a verdict: teach. The teacher reads the reply under each hint of the plan, and one hint is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from chat.models import Turn
from chat.rendering.renderer import Renderer
from gpu_workers.engine.interface import Engine
from judge.hints import choice
from judge.hints.plans import Offer, Plan
from judge.samples import redaction, sample_rows, teacher
from judge.samples.redaction import Clean
from judge.samples.sample_rows import Reason
from judge.samples.teacher import HintedReply, Reading, Unreadable
from judge.votes.evidence import Evidence
from judge.votes.opinions import Opinion, Signals, Silence
from training.config import Recipe


@dataclass(frozen=True)
class Lesson:
    """One turn as the teacher read it, and the hint that was chosen."""

    clean: Clean
    """The turn without what is personal in it: what `reading` speaks of."""
    reading: Reading
    offer: Offer | None
    """What of the plan was chosen; None: what stands already."""
    words: str
    """What is taught; empty while a person is waited for."""
    taught: HintedReply | None
    """The reply under these words; None where there are none, or no teacher can be shown them."""
    unshown: Unreadable | None
    """Why the teacher cannot be shown these words."""
    shown: HintedReply | None
    """The hint that stands or waits, as the teacher was shown it: reviewers see its heat map."""
    choice: str
    """Why it is this wording, where there were several."""

    def gain(self, reward: int | None) -> float | None:
        """Nats a token by which the hint that is shown moves the teacher in the wanted direction."""
        return None if self.shown is None else self.reading.gain(self.shown, reward)


def find_signals(turn: Turn, seen: Evidence, opinion: Opinion, plan: Plan, recipe: Recipe) -> Signals:
    """What of the opinion and its hints this recipe learns from."""
    heard = opinion.reward_of_whole(turn) if opinion.is_trusted else None
    if opinion.note == Reason.MARKS_LOST and opinion.reward_from != "thumb":
        heard = None  # marks say nothing of the reply as a whole; a thumb speaks as one without marks
    reward, hints = sample_rows.signals(heard, plan.wanted, recipe)
    is_own = recipe.w_sft and plan.takes_own and not turn.asked.get("opened")
    return Signals(reward, opinion.token_rewards, hints, seen.rewrite.strip() if is_own else "")


def teach(
    turn: Turn,
    seen: Evidence,
    opinion: Opinion,
    plan: Plan,
    signals: Signals,
    *,
    engine: Engine,
    renderer: Renderer,
    recipe: Recipe,
) -> Lesson | Silence:
    """Have the teacher read the reply, and choose the hint. Silence where there is no signal, or the reply cannot be
    read any more. Raises EngineUnavailable."""
    if signals.is_empty:
        return why_silent(opinion, seen, plan, plan.best(None))
    # Of several wordings that one is chosen which raises a better reply most; without one, the likeliest tokens say.
    is_choice = len(plan.offers) > 1
    better = choice.better_reply(turn, seen) if is_choice and not turn.asked.get("opened") else ""
    try:
        clean = redaction.of(turn, renderer)
        worded = {text: clean.hint(text) for text in signals.hints}
        reading = teacher.read(
            clean.turn,
            tuple(dict.fromkeys(worded.values())),
            engine,
            renderer,
            by=recipe.teacher,
            top=choice.TOP if is_choice else 0,
            better_ids=_ids_of(clean, better, renderer),
        )
    except Unreadable as error:
        return Silence.of_error(error)
    hinted = {text: reading.under(words) for text, words in worded.items() if words not in reading.unshown}
    unshown = {text: reading.unshown[words] for text, words in worded.items() if words in reading.unshown}
    measured = {text: reading.measured(reply, opinion.reward_of_whole(turn)) for text, reply in hinted.items()}
    offer = plan.best(partial(choice.best, measured) if worded else None, unshown)
    words = plan.words_with(offer)
    return Lesson(
        clean=clean,
        reading=reading,
        offer=offer,
        words=words,
        taught=hinted.get(words),
        unshown=unshown.get(words),
        shown=hinted.get(words) or hinted.get(offer.shown if offer is not None else plan.shown),
        choice=choice.why(measured, [one.text for one in plan.shown_of(unshown)], offer.text)
        if offer is not None and offer.text in measured
        else plan.chosen_before,
    )


def why_silent(opinion: Opinion, seen: Evidence, plan: Plan, offer: Offer | None) -> Silence:
    """Why a verdict makes no sample, when no fault is the reason."""
    return Silence.of(_reason(opinion, seen, plan, offer))


def _reason(opinion: Opinion, seen: Evidence, plan: Plan, offer: Offer | None) -> Reason:
    if opinion.reward and not opinion.is_trusted:
        return Reason.UNTRUSTED
    if plan.waits_with(offer):
        return Reason.HINT_WAITS
    if seen.unworded:
        return Reason.WISH_WAITS
    if opinion.note in (Reason.MARKS_LOST, Reason.TRUNCATED):
        return opinion.note
    if opinion.reward or plan.words_with(offer) or opinion.reward_from == "marks":
        return Reason.NOT_ASKED
    if opinion.note:
        return opinion.note
    if plan.is_refused:
        return Reason.HINT_REJECTED
    if opinion.reward_from != "reviewer" and not seen.next_role and seen.reward is None:
        return Reason.NO_SIGNAL
    return Reason.NEUTRAL


def _ids_of(clean: Clean, better: str, renderer: Renderer) -> Sequence[int]:
    """Token ids of a better reply; none where it cannot be laid out: the choice then goes by what else is measured."""
    try:
        return sample_rows.rewritten(clean, better, renderer) if better else ()
    except Unreadable:
        return ()
