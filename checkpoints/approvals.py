"""Who must say yes, who has, and what stands in the way: the rules between the gate and the swap."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.roles import may
from checkpoints import line_policies, notices
from checkpoints.line_policies import Policy, PolicyInvalid
from checkpoints.models import Checkpoint, Decision, Trial
from checkpoints.rulings import SAYS
from core.errors import IllegalMove, TalkbackError

log = logging.getLogger(__name__)

Status, Verb = Checkpoint.Status, Decision.Verb

WAITS = (Status.CANDIDATE, Status.PASSED)
"""States in which a checkpoint can be put on hold."""

SERVES = (Trial.Outcome.BETTER, Trial.Outcome.NO_WORSE)
"""How a trial must have ended where the policy wants one."""


class NotYet(TalkbackError):
    """Something stands between this checkpoint and a yes; the sentence says what. Nothing was changed."""

    code, status = "not_yet", 409


class NotYours(TalkbackError):
    """This person's yes does not count."""

    code, status = "not_yours", 403


class ReasonMissing(TalkbackError):
    """A no, or a "not yet", without a word why teaches nothing."""

    code, status = "reason_missing", 422


@dataclass(frozen=True)
class Standing:
    """How a checkpoint stands between the gate and the swap."""

    policy: Policy | None
    """None: the line's cannot be read, and `blocks` says why."""
    endorsement: Decision | None
    """The first of two yeses, where two are wanted and one was said."""
    hold: Decision | None
    """Who said "not yet", and why."""
    blocks: tuple[str, ...]
    """What stands in the way of any yes, a sentence each."""

    @property
    def wanted(self) -> int:
        """How many people must still say yes."""
        two = self.policy is not None and self.policy.second_approver
        return 1 if not two or self.endorsement else 2


def approve(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> bool:
    """A person's yes. True: it is approved, and promotion follows by itself; False: it was the first yes of two.

    `by` is None for who has the command line. Of two who say the last yes at once one wins. Raises NotYet for what
    stands in the way, NotYours of a person who is no operator, or IllegalMove when another person decided; nothing is
    changed then.
    """
    if by is not None and not may(by, "checkpoints"):
        said = _("%(who)s is no operator here: an operator or an administrator says yes to %(checkpoint)s.")
        raise NotYours(said % {"who": by, "checkpoint": checkpoint})
    with transaction.atomic():
        current = _lock(checkpoint)
        if current.status != Status.PASSED:
            current.decide(Status.APPROVED, by=by, reason=reason)  # says what became of it
        now = standing(current)
        if now.blocks:
            raise NotYet(now.blocks[0])
        if now.policy is not None and now.policy.second_approver:
            if by is None:
                raise NotYet(_("Two people must say yes to %(checkpoint)s: say who you are.") % {"checkpoint": current})
            if now.endorsement is None:
                Decision.objects.create(checkpoint=current, verb=Verb.ENDORSE, by=by, reason=reason)
                return False
            if now.endorsement.by_id == by.pk:
                said = _("You said yes to %(checkpoint)s already, as the first of two: another person says the second.")
                raise NotYet(said % {"checkpoint": current})
        current.decide(Status.APPROVED, by=by, reason=reason)
    checkpoint.refresh_from_db()
    return True


def reject(checkpoint: Checkpoint, *, by: User | None, reason: str) -> None:
    """A person's no: these weights never answer. Raises ReasonMissing, or IllegalMove when another person decided."""
    checkpoint.decide(Status.REJECTED, by=by, reason=_said(reason))


def hold(checkpoint: Checkpoint, *, by: User | None, reason: str) -> None:
    """A person's "not yet": no person and no policy approves it until it is released, and a first yes of two is void.
    Raises ReasonMissing, or IllegalMove when it does not wait for a yes, or is on hold already."""
    reason = _said(reason)
    with transaction.atomic():
        current = _lock(checkpoint)
        if current.status not in WAITS:
            said = _("%(checkpoint)s is %(status)s: only what waits for a yes can be put on hold.")
            raise IllegalMove(said % {"checkpoint": current, "status": _(current.status)})
        if current.is_on_hold:
            raise IllegalMove(_say_on_hold(current, _last(current, Verb.HOLD)))
        Checkpoint.objects.filter(pk=current.pk).update(is_on_hold=True)
        Decision.objects.create(checkpoint=current, verb=Verb.HOLD, by=by, reason=reason)
    checkpoint.refresh_from_db()


def release(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> None:
    """Let it wait for a yes again; each listener hears that it does. Raises IllegalMove when it is not on hold."""
    with transaction.atomic():
        current = _lock(checkpoint)
        if not current.is_on_hold or current.status not in WAITS:
            said = _("%(checkpoint)s is %(status)s and not on hold: there is nothing to release.")
            raise IllegalMove(said % {"checkpoint": current, "status": _(current.status)})
        Checkpoint.objects.filter(pk=current.pk).update(is_on_hold=False)
        Decision.objects.create(checkpoint=current, verb=Verb.RELEASE, by=by, reason=reason)
        current.announce()
    checkpoint.refresh_from_db()


def standing(checkpoint: Checkpoint) -> Standing:
    """What a person who is about to say yes must know."""
    try:
        policy = line_policies.of_row(checkpoint.line)
    except PolicyInvalid as failure:
        first, hold = _said_before(checkpoint)
        said = _("The line's policy is to be mended first.")
        return Standing(None, first, hold, (f"{said} {failure}",))
    first, hold = _said_before(checkpoint) if policy.second_approver or checkpoint.is_on_hold else (None, None)
    blocks = [_say_on_hold(checkpoint, hold)] if checkpoint.is_on_hold else []
    if policy.trial_required and not checkpoint.trials.filter(outcome__in=SERVES).exists():
        said = _("%(checkpoint)s must be tried first: its line wants a trial that came out better, or no worse.")
        blocks.append(said % {"checkpoint": checkpoint})
    return Standing(policy, first if policy.second_approver else None, hold, tuple(blocks))


def _said_before(checkpoint: Checkpoint) -> tuple[Decision | None, Decision | None]:
    """The first of two yeses, and who said "not yet", as far as they stand."""
    said = checkpoint.decisions.filter(verb__in=(Verb.HOLD, Verb.ENDORSE)).select_related("by__account").order_by("pk")
    last = {decision.verb: decision for decision in said}
    last_hold, first = last.get(Verb.HOLD), last.get(Verb.ENDORSE)
    if first is not None and (not _still_may(first.by) or (last_hold is not None and last_hold.pk > first.pk)):
        first = None  # a hold makes a first yes void, and so does an account that is gone, closed, or no operator now
    return first, last_hold if checkpoint.is_on_hold else None


def reasons_against(checkpoint: Checkpoint, checks: Sequence[Mapping[str, Any]], against: Checkpoint) -> list[str]:
    """Why the line's policy does not approve this checkpoint, a sentence each; empty: it does.

    `checks` are those of its exam, and `against` is what was live then.
    """
    now = standing(checkpoint)
    if now.policy is None or not now.policy.auto_approve:
        return [*now.blocks, _("The line's policy approves nothing by itself.")]
    found = list(now.blocks)
    live = Checkpoint.live(checkpoint.line_id)
    if checkpoint.parent_id != live.pk or against.pk != live.pk:
        found.append(_("%(checkpoint)s went live since it was made and examined.") % {"checkpoint": live})
    if near := line_policies.tight(checks, now.policy.margin):
        said = _("It passed %(checks)s by less than %(margin)s of the limit.")
        found.append(said % {"checks": ", ".join(near), "margin": f"{now.policy.margin:.0%}"})
    elif not checks:
        found.append(_("Nothing is known of how it passed the gate."))
    if (alarms := notices.alarms(checkpoint.line_id).count()) > 0:
        said = ngettext("An error notice is unread.", "%(n)s error notices are unread.", alarms)
        found.append(said % {"n": alarms})
    return found


def consider(checkpoint: Checkpoint, checks: Sequence[Mapping[str, Any]], against: Checkpoint) -> bool:
    """Approve what the line's policy says is to be approved without a person; whether it was. Safe to call twice."""
    with transaction.atomic():
        current = _lock(checkpoint)
        if current.status != Status.PASSED:
            return False
        if against_it := reasons_against(current, checks, against):
            log.info("%s waits for a person: %s", current, " ".join(against_it))
            return False
        margin = line_policies.of(current.line_id).margin
        said = SAYS["by policy"] % {"margin": f"{margin:.0%}"}
        current.decide(Status.APPROVED, by=None, reason=said)
    return True


def _lock(checkpoint: Checkpoint) -> Checkpoint:
    """The row as it is now, locked: decisions about one checkpoint queue here."""
    return Checkpoint.objects.select_for_update().get(pk=checkpoint.pk)


def _still_may(person: User | None) -> bool:
    """Whether a yes of this person counts: of two, each must be one who may say it now."""
    return person is not None and may(person, "checkpoints")


def _last(checkpoint: Checkpoint, verb: str) -> Decision | None:
    return checkpoint.decisions.filter(verb=verb).select_related("by").order_by("-pk").first()


def _say_on_hold(checkpoint: Checkpoint, hold: Decision | None) -> str:
    if hold is None:
        return _("%(checkpoint)s is on hold: release it first.") % {"checkpoint": checkpoint}
    said = _("%(checkpoint)s is on hold (%(why)s): release it first.")
    if hold.by is not None:
        said = _("%(checkpoint)s is on hold by %(who)s (%(why)s): release it first.")
    return said % {"checkpoint": checkpoint, "who": hold.by, "why": hold.reason}


def _said(reason: str) -> str:
    if not reason.strip():
        raise ReasonMissing(_("Say in a few words why, so that others can learn from it."))
    return reason.strip()
