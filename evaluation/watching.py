"""The live guard: the newest replies of what went live lately, and of what is tried, against those of before.

Past a limit of its line's policy it goes back by itself, where the policy says so, and operators hear of it. It acts on
a promotion alone: what answers after a roll back, by a person or not, is only told of. So it never swings to and fro;
and the notice of it, an error, keeps the policy from approving anything until a person has read it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from asgiref.sync import async_to_sync
from django.db.models import Q, QuerySet
from django.utils import timezone

from chat.models import Turn
from checkpoints import guard_rule, line_policies, notices, promotion, trials
from checkpoints.guard_rule import Behaviour, Figure
from checkpoints.line_policies import Policy, PolicyInvalid
from checkpoints.loading import Unproven
from checkpoints.models import SHARED, Checkpoint, Decision, Line, Taint, Trial
from checkpoints.notice_rows import Notice
from checkpoints.rulings import SAYS
from core import statistics
from core.errors import IllegalMove
from evaluation import arms
from feedback.models import Feedback
from gate import reply_figures
from gpu_workers import engines
from gpu_workers.errors import EngineUnavailable

log = logging.getLogger(__name__)

WATCHED = timedelta(days=7)
"""How long after it went live a checkpoint is watched: later, what people ask may have changed since the one before."""

NEWEST = 200
"""How many of a checkpoint's newest replies, and of the newest thumbs on them, are looked at."""


@dataclass(frozen=True)
class State:
    """How a checkpoint that is watched stands."""

    checkpoint: Checkpoint
    before: Checkpoint | None
    """What it is held against."""
    policy: Policy
    figures: list[Figure]
    back: Checkpoint | None
    """What a roll back would go to; None: it would only be told of."""

    @property
    def past(self) -> list[Figure]:
        """The limits that are passed."""
        return [figure for figure in self.figures if figure.is_past]


def watch() -> list[str]:
    """Look at every line's live checkpoint and trial, and act by its policy. Returns what was told."""
    told = []
    for line in Line.objects.filter(retired_at=None):
        try:
            if (trial := trials.running(line.name)) is not None:
                told += _act_on_trial(trial)
            state = state_of(Checkpoint.live(line.name), line.name)
            if state is not None and state.past and state.policy.guard != "off":
                told += _act(state, line.name)
        except PolicyInvalid as failure:
            log.warning("the guard of %s looks away: %s", line, failure)
    return told


def state_of(live: Checkpoint, line: str) -> State | None:
    """How this live checkpoint stands in its line; None when it is not watched any more. Raises PolicyInvalid."""
    since = went_live(live, line)
    if since is None or since < timezone.now() - WATCHED:
        return None
    policy = line_policies.of(line)
    before = promotion.previous(line)
    now = behaviour(live, line, Q(created_at__gte=since))
    earlier = behaviour(before, line) if before is not None else None
    return State(live, before, policy, guard_rule.look(now, earlier, policy), way_back(live, line))


def tried(trial: Trial) -> State:
    """How a checkpoint that is being tried stands. Raises PolicyInvalid."""
    policy = line_policies.of(trial.line_id)
    now = behaviour(trial.checkpoint, trial.line_id, Q(created_at__gte=trial.since))
    earlier = behaviour(trial.against, trial.line_id)
    return State(trial.checkpoint, trial.against, policy, guard_rule.look(now, earlier, policy), trial.against)


def behaviour(checkpoint: Checkpoint, line: str, which: Q | None = None) -> Behaviour:
    """What this checkpoint's newest main-line replies to this line's people are like."""
    served = of_line(line).filter(checkpoint=checkpoint).filter(which if which is not None else Q())
    ended = served.filter(finish_reason__in=("stop", "length", "tool_calls", "error")).order_by("-created_at")
    replies = list(ended.only("finish_reason", "text", "response_ids")[:NEWEST])
    whole = [turn for turn in replies if turn.is_whole]
    given = Feedback.objects.standing().filter(turn__in=served, kind=Feedback.Kind.THUMB, value__in=(1, -1))
    thumbs = list(given.order_by("-created_at").values_list("value", flat=True)[:NEWEST])
    return Behaviour(
        replies=len(replies),
        failed=len(replies) - len(whole),
        rated=len(thumbs),
        downs=thumbs.count(-1),
        length=statistics.mean([len(turn.response_ids) for turn in whole]) if whole else 0.0,
        refusals=sum(guard_rule.refuses(turn.text) for turn in whole),
        repetition=statistics.mean([reply_figures.repeated(turn.response_ids) for turn in whole]) if whole else 0.0,
    )


def of_line(line: str) -> QuerySet[Turn]:
    """The main-line turns of the people who talk to this line."""
    turns = Turn.objects.filter(line=Turn.Line.MAIN)
    if line == SHARED:
        return turns.filter(session__user__membership=None)
    return turns.filter(session__user__membership__line=line)


def last_move(line: str) -> Decision | None:
    """The last time that something went live in this line, or was gone back to."""
    moves = Decision.objects.filter(verb__in=(Decision.Verb.PROMOTE, Decision.Verb.ROLL_BACK))
    of_it = moves.filter(Q(line=line) | Q(line=None, checkpoint__line=line))
    return of_it.select_related("checkpoint").order_by("-at", "-pk").first()


def went_live(live: Checkpoint, line: str) -> datetime | None:
    """Since when this checkpoint answers the line; None when it always has."""
    move = last_move(line)
    return move.at if move is not None and move.checkpoint_id == live.pk else None


def way_back(live: Checkpoint, line: str) -> Checkpoint | None:
    """What a roll back by itself goes to: what was live before, or where the line began when that was taken back or let
    go. None unless a promotion made `live` live: then a person is asked."""
    move = last_move(line)
    if move is None or move.verb != Decision.Verb.PROMOTE or move.checkpoint_id != live.pk:
        return None
    start = Line.objects.select_related("start").get(name=line).start or Checkpoint.objects.get(number=0)
    for back in (promotion.previous(line), start):
        is_tainted = back is not None and Taint.objects.filter(checkpoint=back).exists()
        if back is not None and back.pk != live.pk and not back.let_go_at and not is_tainted:
            return back
    return None


def _act(state: State, line: str) -> list[str]:
    what = " ".join(figure.sentence for figure in state.past)
    if state.policy.guard == "tell" or state.back is None:
        why = "" if state.policy.guard == "tell" else f" {SAYS['past, no way back']}"
        said = SAYS["past"] % {"checkpoint": state.checkpoint}
        return _tell(state.checkpoint, line, f"{said} {what}{why}", state)
    said = f"{SAYS['guard']} {what}"
    try:
        live = _roll_back(state.back, state.checkpoint, line, said)
    except IllegalMove:
        return []  # another process was quicker
    except EngineUnavailable as away:
        log.warning("the guard cannot roll %s back yet, the next sweep tries again: %s", state.checkpoint, away)
        return []
    except Unproven as failure:
        text = f"{SAYS['past, not gone back'] % {'checkpoint': state.checkpoint}} {failure} {what}"
        return _tell(state.checkpoint, line, text, state, level=Notice.Level.ERROR)
    text = f"{SAYS['gone back'] % {'checkpoint': state.checkpoint, 'live': live}} {what}"
    notices.tell(f"guard {line}", text, level=Notice.Level.ERROR, checkpoint=state.checkpoint)
    return [text]


def _roll_back(to: Checkpoint, instead_of: Checkpoint, line: str, reason: str) -> Checkpoint:
    async def back() -> Checkpoint:
        try:
            return await promotion.roll_back(to=to, line=line, instead_of=instead_of, reason=reason)
        finally:
            await engines.policy().aclose()  # this event loop ends here, and its connections with it

    return async_to_sync(back)()


def _act_on_trial(trial: Trial) -> list[str]:
    state = tried(trial)
    if not state.past or state.policy.guard == "off":
        return []
    what = " ".join(figure.sentence for figure in state.past)
    if state.policy.guard == "tell":
        text = f"{SAYS['past, tried'] % {'checkpoint': trial.checkpoint}} {what}"
        return _tell(trial.checkpoint, trial.line_id, text, state)
    evidence = arms.standing(trial).evidence
    if not trials.end(trial, outcome=Trial.Outcome.WORSE, reason=f"{SAYS['guard']} {what}", evidence=evidence):
        return []
    text = f"{SAYS['trial ended'] % {'checkpoint': trial.checkpoint}} {what}"
    notices.tell(f"guard {trial.line_id}", text, level=Notice.Level.ERROR, checkpoint=trial.checkpoint)
    return [text]


def _tell(checkpoint: Checkpoint, line: str, text: str, state: State, level: str = Notice.Level.WARNING) -> list[str]:
    """Once for each set of limits: one that was read is not told again every minute."""
    key = f"guard {line} {checkpoint.number} {' '.join(figure.name for figure in state.past)}"
    if Notice.objects.filter(key=key).exclude(read_at=None).exists():
        return []
    notices.tell(key, text, level=level, checkpoint=checkpoint)
    return [text]
