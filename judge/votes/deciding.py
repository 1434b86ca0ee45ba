"""Step 1 of a verdict: decide what the evidence comes to. What people said decides; where they left open what the
recipe needs, the judges are asked for votes."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from chat.models import Turn
from chat.rendering.offsets import OffsetsLost
from chat.rendering.renderer import Renderer
from judge.models import Hint, Overruling, Vote
from judge.samples import marking, redaction
from judge.samples.sample_rows import Reason
from judge.votes import casting, judges, own_words, polling
from judge.votes.evidence import Evidence
from judge.votes.judge import Panel
from judge.votes.opinions import Opinion
from judge.votes.polling import Finding
from judge.votes.voting import NEW, Outcome
from training.config import Recipe

log = logging.getLogger(__name__)

PATIENCE = timedelta(hours=6)
"""How long after it was observed a turn waits for votes that were late or never heard; then it goes without them."""


def decide(turn: Turn, seen: Evidence, *, who: Panel, renderer: Renderer, recipe: Recipe) -> Opinion:
    """Say what this evidence comes to, hints without personal data. Raises EngineUnavailable as `voted` does."""
    trusted = judges.teaches()
    decided = is_decided(seen, recipe, trusted=trusted)
    opinion = overruled(turn, stated(seen) if decided else voted(turn, seen, who=who, recipe=recipe))
    hints = redaction.hints_without(turn, opinion.hints, renderer)
    token_rewards, lost = marked(turn, seen, opinion, renderer) if recipe.w_rl and not turn.is_cut else ((), False)
    note = opinion.note
    if lost:
        note = Reason.MARKS_LOST
    elif turn.is_cut and (opinion.reward or seen.marks or not (hints or note)):
        note = Reason.TRUNCATED  # rewards do not fall on half a reply
    return replace(
        opinion,
        hints=hints,
        token_rewards=token_rewards,
        note=note,
        is_trusted=trusted or opinion.reward_from != "votes",
    )


def without_votes(turn: Turn, seen: Evidence, renderer: Renderer) -> Opinion:
    """What people and rules said of a turn that cannot teach: no judge is asked about it."""
    opinion = overruled(turn, stated(seen))
    return replace(opinion, hints=redaction.hints_without(turn, opinion.hints, renderer))


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


def overruled(turn: Turn, opinion: Opinion) -> Opinion:
    """The opinion with a reviewer's word on the reward, where there is one: it outranks everything."""
    word = Overruling.objects.filter(turn=turn).first()
    if word is None:
        return opinion
    sure = None if word.reward is None else 1.0
    return replace(opinion, reward=word.reward, reward_from="reviewer", confidence=sure, rule="", topic="", note=None)


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
    cast = [casting.ballot_of(vote) for vote in casting.cast(turn, seen, questions, who=who)]
    if timezone.now() - (turn.observed_at or turn.moved_at) < PATIENCE:
        polling.awaited(cast)
    # Votes of judges that were never measured are kept, for the day when one is, and decide nothing.
    if polling.are_unknown(who):
        return replace(opinion, note=Reason.UNMEASURED)
    measures = polling.bench(who).measures
    found = polling.finding(cast, measures)
    if Vote.Question.SCORE in questions:
        if found.score.is_unclear:
            return replace(opinion, confidence=found.score.confidence, note=Reason.UNCLEAR)
        opinion = with_reward(opinion, found.score)
    if Vote.Question.HINT in questions and not opinion.topic:
        may_accept = all(measures[who].hints_hold for who in {one.judge for one in cast})
        opinion = with_hints(opinion, seen, found, may_accept=may_accept)
    return opinion


def with_reward(opinion: Opinion, score: Outcome) -> Opinion:
    """The opinion with the reward that votes are sure of."""
    if score.reward is None:
        return replace(opinion, note=Reason.NO_QUORUM)
    return replace(
        opinion,
        reward=score.reward,
        reward_from="votes",
        confidence=score.confidence,
        topic=NEW if score.is_new else "",
        note=Reason.NEW_TOPIC if score.is_new else None,
    )


def with_hints(opinion: Opinion, seen: Evidence, found: Finding, *, may_accept: bool) -> Opinion:
    """The opinion with what votes propose: the user's own words where votes are sure of them, else a judge's."""
    confidence = found.asks_hint.confidence
    if found.is_own_sure and (wish := own_words.wish_in(seen)):
        return replace(opinion, hints=(wish,), hint_from="said", hint_confidence=confidence, source=Hint.Source.SAID)
    if found.hints:
        return replace(
            opinion,
            hints=found.hints,
            hint_from="votes",
            hint_confidence=confidence,
            source=seen.source,
            may_accept=may_accept,
        )
    return replace(opinion, note=Reason.NO_QUORUM) if found.asks_hint.reward is None else opinion


def marked(turn: Turn, seen: Evidence, opinion: Opinion, renderer: Renderer) -> tuple[tuple[int, ...], bool]:
    """The tokens' own rewards where people marked words of the reply and no source that outranks them decided; and
    whether they are lost. A thumb beside them rewards the rest where it says otherwise (judge.samples.marking)."""
    if not seen.marks or opinion.reward_from not in ("thumb", "marks"):
        return (), False
    try:
        return tuple(marking.token_rewards(turn, seen.marks, renderer, seen.thumb or 0)), False
    except OffsetsLost as error:
        log.warning("turn %s: %s", turn.pk, error)
        return (), True
