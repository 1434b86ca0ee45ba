"""Trials: some sessions of a line are answered by a checkpoint that passed, beside the live one, until enough is known.

Which sessions is decided by a hash of trial and session: no row is written, every process agrees, and a session keeps
its weights for as long as the trial lasts. A session that had begun before goes by the same hash: it may change its
weights once, in the next reply, and both arms are made up of the same kinds of sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Subquery
from django.utils import timezone
from django.utils.translation import gettext as _

from checkpoints import loading, promotion
from checkpoints.models import Checkpoint, Decision, Trial
from checkpoints.rulings import SAYS
from core.errors import TalkbackError
from core.prepared import Prepared
from gpu_workers import engines

MOST = 90
"""Per cent of the sessions: with fewer left to the live checkpoint there is nothing to hold the candidate against."""

TRIED = (Checkpoint.Status.PASSED, Checkpoint.Status.APPROVED)
"""What may be tried: it passed the gate, and does not answer yet."""


class TrialRefused(TalkbackError):
    """This checkpoint cannot be tried, or not so."""

    code, status = "trial_refused", 409


def answering(live: Checkpoint, user: int, session: UUID) -> Checkpoint:
    """Who answers in this person's session: `live`, as Checkpoint.for_user gave it, or what is being tried there.

    A checkpoint that was found in another way (a pinned key's, one asked for by number) knows of no trial and stays.
    """
    if live.trial is None:
        return live
    trial = RUNNING.first(user, live.trial)
    if trial is None or trial.against_id != live.pk:  # it ended, or live has changed and it is about to end
        return live
    takes_part = falls_to(trial.pk, session, trial.share) if trial.share else trial.is_reviewer  # type: ignore[attr-defined]  # it is annotated
    return trial.checkpoint if takes_part else live


RUNNING: Prepared[Trial] = Prepared(
    lambda user, pk: (
        Trial.objects.filter(pk=pk, ended_at=None, checkpoint__status__in=[*TRIED])
        .annotate(is_reviewer=Subquery(User.objects.filter(pk=user).order_by().values("is_staff")[:1]))
        .select_related("checkpoint")
        .order_by()
    )
)
"""By the person's number, and the trial's."""


def falls_to(trial: int, session: UUID, share: int) -> bool:
    """Whether this session is among the `share` per cent that the candidate answers.

    >>> sessions = [UUID(int=n) for n in range(2000)]
    >>> 0.08 < sum(falls_to(1, session, 10) for session in sessions) / 2000 < 0.12
    True
    >>> all(falls_to(1, session, 50) for session in sessions if falls_to(1, session, 10))
    True
    """
    digest = hashlib.sha256(f"{trial}:{session}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * 100 < share << 64


async def start(checkpoint: Checkpoint, *, share: int, by: User | None, reason: str = "") -> Trial:
    """Have the checkpoint answer in `share` per cent of its line's sessions, or, with 0, in those of staff alone.

    Its weights are loaded beside the live ones and proven first. Raises TrialRefused, or Unproven or AdapterInvalid
    when the engine does not answer as these weights do, or EngineUnavailable; nothing is changed then.
    """
    checkpoint = await Checkpoint.objects.select_related("line").aget(pk=checkpoint.pk)
    if why := await sync_to_async(why_not)(checkpoint, share):
        raise TrialRefused(why)
    engine = engines.policy()
    if await engine.serving() != loading.weights_of(checkpoint):
        raise TrialRefused(_("Full weights answer everybody now: an adapter cannot answer beside them."))
    await promotion._bring(checkpoint, engine, checkpoint.line_id)
    return await sync_to_async(_begin)(checkpoint, share, by, reason)


def why_not(checkpoint: Checkpoint, share: int, find: Callable[[str], Trial | None] | None = None) -> str:
    """Why this checkpoint cannot be tried with this share, in a sentence; empty when it can. `find` is `running`, or
    says what the caller has found already."""
    if not 0 <= share <= MOST:
        said = _("A trial takes 0 (reviewers only) to %(most)s per cent of the sessions, not %(share)s.")
        return said % {"most": MOST, "share": share}
    if checkpoint.status not in TRIED:
        said = _("%(checkpoint)s is %(status)s: only what passed the gate, and does not answer yet, can be tried.")
        return said % {"checkpoint": checkpoint, "status": _(checkpoint.status)}
    if checkpoint.kind != Checkpoint.Kind.LORA:
        return _("%(checkpoint)s has no adapter: only adapters answer beside what is live.") % {
            "checkpoint": checkpoint
        }
    if checkpoint.let_go_at:
        return _("The weights of %(checkpoint)s are not on this disk any more.") % {"checkpoint": checkpoint}
    if checkpoint.taints.all():
        said = _("%(checkpoint)s learned from something that its people took back: it may not answer.")
        return said % {"checkpoint": checkpoint}
    if checkpoint.line.retired_at:
        return _("The line of %(checkpoint)s is retired: no person talks to it.") % {"checkpoint": checkpoint}
    if other := (find or running)(checkpoint.line.name):
        said = _("%(checkpoint)s is being tried already: a line has one trial at a time. End that one first.")
        return said % {"checkpoint": other.checkpoint}
    return ""


@transaction.atomic
def _begin(checkpoint: Checkpoint, share: int, by: User | None, reason: str) -> Trial:
    Checkpoint.objects.select_for_update().get(number=0)  # swaps queue here: live stays live until this is written
    checkpoint.refresh_from_db()
    if why := why_not(checkpoint, share):
        raise TrialRefused(why)
    live = Checkpoint.live(checkpoint.line_id)
    try:
        with transaction.atomic():
            trial = Trial.objects.create(checkpoint=checkpoint, against=live, line=checkpoint.line, share=share, by=by)
    except IntegrityError as error:
        said = _("Another person began a trial in this line just now: nothing was changed.")
        raise TrialRefused(said) from error
    said = SAYS["tried" if share else "tried by reviewers"] % {"share": share, "live": live}
    said += f" {reason}" if reason else ""
    Decision.objects.create(checkpoint=checkpoint, verb=Decision.Verb.TRY, by=by, reason=said)
    return trial


@transaction.atomic
def end(
    trial: Trial,
    *,
    outcome: str = Trial.Outcome.STOPPED,
    by: User | None = None,
    reason: str = "",
    evidence: Mapping[str, Any] | None = None,
) -> bool:
    """From the next reply on the live checkpoint answers all sessions again. False: it had ended already, and nothing
    was changed. `by` is None where the figures, or what happened to the checkpoint, ended it."""
    ended = {"ended_at": timezone.now(), "outcome": outcome} | ({"evidence": dict(evidence)} if evidence else {})
    if not Trial.objects.filter(pk=trial.pk, ended_at=None).update(**ended):
        return False
    trial.refresh_from_db()
    said = f"{SAYS[outcome]} {reason}".strip()
    Decision.objects.create(checkpoint=trial.checkpoint, verb=Decision.Verb.END_TRIAL, by=by, reason=said)
    if outcome in (Trial.Outcome.BETTER, Trial.Outcome.NO_WORSE):
        trial.checkpoint.announce()  # the line's policy may have waited for this
    return True


def running(line: str) -> Trial | None:
    """The trial of this line."""
    return Trial.objects.select_related("checkpoint", "against", "line").filter(line=line, ended_at=None).first()


def end_overtaken() -> int:
    """End trials whose checkpoint has moved on, or beside which something else is live by now. Returns how many. Their
    sessions are answered by the live checkpoint already: this writes it down."""
    trials = Trial.objects.filter(ended_at=None).select_related("checkpoint", "against", "line").order_by("pk")
    ended = 0
    for trial in trials:
        if why := _overtaken(trial):
            ended += end(trial, reason=why)
    return ended


def _overtaken(trial: Trial) -> str:
    if trial.checkpoint.status not in TRIED:
        return SAYS["moved on"] % {"checkpoint": trial.checkpoint, "status": trial.checkpoint.status}
    if trial.line.retired_at:
        return SAYS["line retired"]
    live = Checkpoint.live(trial.line_id)
    return SAYS["overtaken"] % {"live": live, "against": trial.against} if live.pk != trial.against_id else ""


def extent(trial: Trial) -> str:
    """Whom it answers, in words."""
    if not trial.share:
        return _("reviewers only")
    return _("%(share)s per cent of the sessions") % {"share": trial.share}
