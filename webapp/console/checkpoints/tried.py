"""Show a checkpoint's trials, and its guard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from checkpoints import line_policies, trials
from checkpoints.line_policies import PolicyInvalid
from checkpoints.models import Checkpoint, Trial
from evaluation import arms, watching
from webapp.charts import shares

USUAL = 10
"""Per cent that the form offers where the line's policy names none."""

SAID = (Trial.Outcome.STOPPED, Trial.Outcome.BETTER, Trial.Outcome.NO_WORSE, Trial.Outcome.WORSE)
"""How a person may say that a trial with reviewers only ended."""


def earlier(checkpoint: Checkpoint) -> Mapping[str, Any] | None:
    """Its trials that ended; None where there is none, or where the page shows them with the one that runs."""
    every = list(checkpoint.trials.select_related("checkpoint", "against", "by"))
    past = [one for one in every if one.ended_at is not None]
    return {"checkpoint": checkpoint, "past": _told(past)} if past and len(past) == len(every) else None


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """Its trial with those that ended, or the form that begins one."""
    running = _running(checkpoint)
    mine = running if running is not None and running.checkpoint_id == checkpoint.pk else None
    if checkpoint.status not in trials.TRIED and mine is None:
        return None
    now = arms.standing(mine) if mine is not None else None
    ended = checkpoint.trials.exclude(ended_at=None).select_related("checkpoint", "against", "by")
    share, found = _policy(checkpoint, mine)
    return {
        "checkpoint": checkpoint,
        "trial": mine,
        "extent": trials.extent(mine) if mine is not None else "",
        "sides": [now.candidate, now.live] if now is not None else [],
        "sentence": arms.verdict(now) if now is not None else "",
        "chart": shares.trial(now) if now is not None else None,
        "outcomes": [(one.value, _(one.value)) for one in SAID],
        "guard": found,
        "may": checkpoint.status in trials.TRIED and mine is None,
        "why_not": trials.why_not(checkpoint, USUAL, find=lambda _line: running),
        "share": share,
        "most": trials.MOST,
        "past": _told(ended) if mine is not None else [],
    }


def guarded(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """What the guard sees of the live checkpoint."""
    if checkpoint.status != Checkpoint.Status.LIVE:
        return None
    try:
        state = watching.state_of(checkpoint, checkpoint.line.name)
    except PolicyInvalid as failure:
        return {"checkpoint": checkpoint, "failure": str(failure)}
    running = _running(checkpoint)
    until = None
    if state is not None and (since := watching.went_live(checkpoint, checkpoint.line.name)) is not None:
        until = since + watching.WATCHED
    return {
        "checkpoint": checkpoint,
        "state": state,
        "until": until,
        "days": watching.WATCHED.days,
        "trial": running,
        "extent": trials.extent(running) if running is not None else "",
    }


def _running(checkpoint: Checkpoint) -> Trial | None:
    """The trial of its line, which is asked for where a checkpoint with notes (`panels.with_notes`) says there is
    one."""
    return trials.running(checkpoint.line.name) if getattr(checkpoint, "line_tries", True) else None


def _told(past: Iterable[Trial]) -> list[tuple[Trial, str, str]]:
    """Trials that ended, each with whom it answered and how it came out."""
    return [(one, trials.extent(one), arms.sentence(arms.standing(one))) for one in past]


def _policy(checkpoint: Checkpoint, trial: Trial | None) -> tuple[int, watching.State | None]:
    """The share that the form offers, and what the guard sees of a trial; a policy that cannot be read says neither."""
    try:
        share = line_policies.of_row(checkpoint.line).trial_share
        return share or USUAL, watching.tried(trial) if trial is not None else None
    except PolicyInvalid:
        return USUAL, None
