"""Score the steps of an episode that has ended, and make each a sample. Safe to run twice, and to die at any line.

All steps of an attempt are scored together, in one transaction and few queries, once it has ended: while it is played
nothing of it is judged. What is said of a step later scores that one again, until a run has claimed it.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from chat.models import Turn
from chat.rendering.renderer import Renderer
from core.errors import IllegalMove
from episodes.models import Action, Episode, Group, counts
from feedback.models import Feedback
from gpu_workers.engine.interface import Engine
from judge import played_groups, step_verdicts, steps_worth
from judge.models import Judgement, Overruling, Vote
from judge.samples import redaction, sample_rows, step_rows
from judge.samples.sample_rows import Reason
from judge.samples.teacher import Unreadable
from judge.sittings import Seat, sitting
from judge.step_verdicts import Step, StepVerdict
from judge.votes import casting, deciding, evidence, polling, step_scores
from judge.votes.judge import Panel
from judge.votes.opinions import Silence
from judge.votes.step_scores import StepScore
from training.config import Recipe

log = logging.getLogger(__name__)

ROUNDS = 5
"""How often it is begun again because something was said meanwhile; then the next sweep takes it."""

SEAT_S = 60.0
"""How long a worker keeps an episode without a sign of life: 128 steps whose log-probs are known take a few seconds."""

EVERY_S = 5.0
"""How often it says that it lives."""

ENDED = (Episode.Status.SCORED, Episode.Status.LEARNED, Episode.Status.VOID)


@dataclass(frozen=True)
class Bench:
    """Who judges, and what they work with."""

    who: Panel
    engine: Engine
    renderer: Renderer
    recipe: Recipe


def episode_of(turn_id: str) -> UUID | None:
    """The episode that this turn is a step of; None of any other turn."""
    return Episode.objects.filter(session__turns=UUID(turn_id)).values_list("pk", flat=True).first()


def judge(pk: UUID, *, who: Panel, engine: Engine, renderer: Renderer, recipe: Recipe) -> bool:
    """Bring all due steps of an episode to their verdicts, and its group on. True when this call wrote some.

    Does nothing while it is played, while a reply of it is being written, or where another worker is at it. Raises
    EngineUnavailable when log-probs or votes are needed and no engine answered; nothing was written then.
    """
    at = Bench(who, engine, renderer, recipe)
    with sitting(f"episode {pk}", for_s=SEAT_S) as seat:
        if seat is None:
            return False
        is_written = _judge_all(pk, at, seat)
    group = Episode.objects.filter(pk=pk, status__in=ENDED).values_list("group", flat=True).first()
    if group is not None:
        played_groups.settle(group)
    return is_written


def unjudged(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those of these episodes that have ended, and of which no step has a verdict: the sweep sends them again. Single
    steps that were opened again it sends by themselves."""
    turns = Turn.objects.filter(session=OuterRef("session"))
    written = Judgement.objects.filter(turn__session=OuterRef("session"))
    whole = turns.filter(line=Turn.Line.MAIN, finish_reason__in=WHOLE)
    return episodes.filter(~Exists(written), Exists(whole), status__in=ENDED)


WHOLE = ("stop", "length", "tool_calls")


def _judge_all(pk: UUID, at: Bench, seat: Seat) -> bool:
    """True when verdicts were written; False: nothing is due, or things changed faster than they were judged."""
    for _ in range(ROUNDS):
        episode = Episode.objects.select_related("group", "session").filter(pk=pk, status__in=ENDED).first()
        due = find_due(episode) if episode is not None and episode.session is not None else []
        if episode is None or not due:
            return False
        verdicts, renewed = [], -EVERY_S
        for step in due:
            if time.monotonic() - renewed >= EVERY_S:
                seat.renew(SEAT_S + polling.ATTEMPTS * settings.JUDGE_DEADLINE_S)
                renewed = time.monotonic()
            verdicts.append(reach(step, episode, at))
        try:
            if step_verdicts.write(episode, verdicts):
                return True
        except IllegalMove as error:
            log.info("episode %s changed while it was judged, once more: %s", pk, error)
    return False


def find_due(episode: Episode) -> list[Step]:
    """The steps that want a verdict, in order; none while a reply is being written. What a run has claimed waits for
    its end. `number` counts whole replies of the main line, from 0."""
    session = episode.session
    turns = list(Turn.objects.filter(session=session).select_related("checkpoint", "judgement").order_by("position"))
    if session is None or any(turn.status == Turn.Status.ANSWERING for turn in turns):
        return []
    for turn in turns:
        turn.session = session
    left = passed_over(turns, set(Action.objects.filter(episode=episode).values_list("turn", flat=True)))
    played = [turn.pk for turn in turns if turn.line == Turn.Line.MAIN and turn.is_whole and turn.pk not in left]
    due = [turn for turn in turns if is_due(turn)]
    claimed = step_verdicts.claimed([turn.pk for turn in due])
    step_verdicts.mark_late(claimed)
    due = [turn for turn in due if turn.pk not in claimed]
    said = defaultdict[Any, list[Feedback]](list)
    for one in Feedback.objects.standing().filter(turn__in=due):
        said[one.turn_id].append(one)
    words = {one.turn_id: one for one in Overruling.objects.filter(turn__in=due)}
    is_short = played_groups.is_short(episode.group)
    return [
        Step(
            turn=turn,
            number=played.index(turn.pk) if turn.pk in played else None,
            seen=evidence.of(turn, said[turn.pk]),
            word=words.get(turn.pk),
            unfit=find_unfit(turn, episode, is_passed_over=turn.pk in left, is_short=is_short),
        )
        for turn in due
    ]


def is_due(turn: Turn) -> bool:
    """Whether it wants a verdict: something came back, or was said of it; or it is the last, to which nothing does."""
    if turn.status == Turn.Status.OBSERVED:
        return True
    is_last = turn.status == Turn.Status.CLOSED and turn.line == Turn.Line.MAIN and turn.is_whole
    return is_last and not hasattr(turn, "judgement")


def passed_over(turns: Sequence[Turn], acted: set[UUID]) -> set[UUID]:
    """Of several replies to one request those that nothing followed, where something followed another."""
    rivals = defaultdict[str, list[Turn]](list)
    for turn in turns:
        if turn.line == Turn.Line.MAIN and turn.is_whole and turn.request_chain:
            rivals[turn.request_chain].append(turn)
    left = set[UUID]()
    for group in rivals.values():
        ends = {turn.pk for turn in group if not (turn.next_state or turn.pk in acted)}
        left |= ends if len(ends) < len(group) else set()
    return left


def find_unfit(turn: Turn, episode: Episode, *, is_passed_over: bool, is_short: bool) -> Silence | None:
    """Why this step teaches nothing, whatever it scores; None when it does. A reply that was cut at its length is the
    agent's own step; one that the server cut is none."""
    if episode.group.split == Group.Split.HELDOUT:
        return step_verdicts.EXAMINES
    unfit = sample_rows.unfit(turn)
    if unfit == Reason.OFF:
        return Silence.of(unfit)
    if episode.status == Episode.Status.VOID:
        return step_verdicts.VOID
    if not counts(episode.ending, episode.cut_by):
        return step_verdicts.FULL
    if unfit is not None:
        return Silence.of(unfit)
    if is_passed_over:
        return step_verdicts.NOT_PLAYED
    if is_short:
        return step_verdicts.SHORT
    return Silence.of(Reason.LEARNED) if episode.status == Episode.Status.LEARNED else None


def reach(step: Step, episode: Episode, at: Bench) -> StepVerdict:
    """The verdict on one step: score it, compose its sample. Nothing is written but votes."""
    turn, world = step.turn, episode.scores.get(step.turn.completion_id)
    if step.is_off:  # of what is off the record nothing is kept but what its world says of it
        is_known = step.unfit == step_verdicts.EXAMINES and world is not None
        score = StepScore(world, step_scores.WORLD, confidence=1.0) if is_known else step_scores.UNKNOWN
        return StepVerdict(step, score, silence=step.unfit)
    score = step_scores.state(step.seen, word=step.word, world=world)
    hints = redaction.hints_without(turn, [step.seen.correction] if step.seen.correction else [], at.renderer)
    if step.unfit is not None and step.unfit != Silence.of(Reason.PICTURE):
        return StepVerdict(step, score, "".join(hints), silence=step.unfit)
    note = step_verdicts.WORDS if hints else None
    if score == step_scores.UNKNOWN and step.seen.next_role and at.recipe.w_rl:
        score, unheard = vote(step, episode, at)
        note = note or unheard
    if step.unfit is not None:  # scored, as a reply to a picture is in a chat, and not learned
        return StepVerdict(step, score, "".join(hints), silence=step.unfit)
    try:
        sample = step_rows.compose(
            turn,
            score,
            episode.pk,
            step.number or 0,
            engine=at.engine,
            renderer=at.renderer,
            recipe=at.recipe,
        )
    except Unreadable as error:
        return StepVerdict(step, score, "".join(hints), silence=Silence.of_error(error))
    return StepVerdict(step, score, "".join(hints), sample, note)


def vote(step: Step, episode: Episode, at: Bench) -> tuple[StepScore, Silence | None]:
    """What votes say of a step, as much as they are worth in its world, and why that is nothing. Where it would be
    nothing none is asked. Raises EngineUnavailable as long as votes that were late or never heard may still come."""
    if polling.have_stopped(at.who):
        return step_scores.UNKNOWN, Silence.of(Reason.NO_JUDGE)
    worth = steps_worth.of(episode.group.world, at.who)
    if not worth.worth:
        kind = Reason.UNTRUSTED if worth.n >= steps_worth.LEAST else Reason.UNMEASURED
        return step_scores.UNKNOWN, Silence(worth.sentence[:200], kind.code)
    votes = casting.cast(step.turn, step.seen, [Vote.Question.SCORE], who=at.who)
    if timezone.now() - (episode.ended_at or timezone.now()) < deciding.PATIENCE:
        polling.awaited([replace(casting.ballot_of(one), weight=1.0) for one in votes])
    found = steps_worth.find(votes, at.who)
    score = step_scores.weigh(found, worth.worth)
    if score != step_scores.UNKNOWN:
        return score, None
    return score, Silence.of(Reason.UNCLEAR if found.likeliest is not None else Reason.NO_QUORUM)
