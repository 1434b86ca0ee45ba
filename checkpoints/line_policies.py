"""What is decided in a line without a person, and what a person's yes needs: set by a person, quiet until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Literal, Self

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from checkpoints.models import SHARED, Line
from core.errors import TalkbackError


class PolicyInvalid(TalkbackError):
    """The policy cannot be used: an unknown name, a value out of bounds, or rules that contradict each other."""

    code, status = "policy_invalid", 422


class Policy(BaseModel):
    """How a line's checkpoints come to answer, and what takes them back. The defaults decide nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    # Who says yes

    second_approver: bool = False
    """Two different people must say yes before a checkpoint goes live."""

    auto_approve: bool = False
    """A checkpoint that passed the gate with room to spare is approved without a person."""

    margin: float = Field(0.05, gt=0, le=1)
    """The room to spare: how far inside its limit every check of the gate must lie, as a share of the limit. Some
    limits lie only a few points under what answers now: much more than 0.05 wants a checkpoint that is better there."""

    # Trials

    trial_required: bool = False
    """Nothing is approved before a trial with some of the sessions ended well: better, or no worse."""

    trial_share: int = Field(0, ge=0, le=100)
    """How many per cent of the line's sessions a trial takes, unless the person who starts it names another share; 0:
    reviewers only."""

    # The guard: the live checkpoint's replies, against those of the one before it

    guard: Literal["off", "tell", "roll back"] = "tell"
    """What follows when one of the limits below is passed: nothing, a notice, or a roll back and a notice."""

    guard_replies: int = Field(30, ge=1)
    """Replies that the live checkpoint must have written before they are judged; of thumbs, so many rated replies."""

    guard_thumbs: float | None = Field(0.2, gt=0, le=1)
    """Rise of the share of thumbs down among rated replies, at most; empty: not looked at."""

    guard_errors: float | None = Field(0.1, gt=0, le=1)
    """Share of replies that failed, at most; empty: not looked at."""

    guard_length: float | None = Field(3.0, gt=1)
    """Mean length may be so many times that of before, or that part of it, at most; empty: not looked at."""

    guard_refusals: float | None = Field(0.2, gt=0, le=1)
    """Rise of the share of replies that refuse, at most; empty: not looked at."""

    guard_repetition: float | None = Field(0.2, gt=0, le=1)
    """Rise of the share of four-token runs that repeat earlier ones of the reply, at most; empty: not looked at."""

    @model_validator(mode="after")
    def _contradicts_nothing(self) -> Self:
        if self.second_approver and self.auto_approve:
            raise ValueError(_("two people must say yes, or none need: choose second_approver or auto_approve"))
        return self


def read(fields: Mapping[str, object]) -> Policy:
    """The policy that these fields make; what they leave out stands at its default. Raises PolicyInvalid."""
    try:
        return Policy.model_validate(dict(fields))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise PolicyInvalid(_("A policy has no field %(name)s.") % {"name": name}) from error
        said = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        why = f"{name} {said}" if name else said
        raise PolicyInvalid(_("The policy cannot be used: %(why)s.") % {"why": why}) from error


def of(line: str | None) -> Policy:
    """What holds in this line, or in the shared one. Raises PolicyInvalid: a policy that cannot be read is never taken
    for none."""
    return read(Line.objects.filter(name=line or SHARED).values_list("policy", flat=True).first() or {})


def of_row(line: Line) -> Policy:
    """The same of a line that was read already. Raises PolicyInvalid."""
    return read(line.policy)


def changed(policy: Policy) -> dict[str, Any]:
    """What differs from the defaults: that is what a line's row keeps."""
    return policy.model_dump(exclude_defaults=True)


def room(value: float, limit: float) -> float:
    """How far a value that keeps to its limit lies inside it, as a share of the limit.

    >>> room(0.05, 0.1), room(1.0, 4.0), room(0.0, 0.0)
    (0.5, 0.75, 0.0)
    """
    apart = abs(value - limit)
    return apart / abs(limit) if limit else inf if apart else 0.0


def tight(checks: Sequence[Mapping[str, Any]], margin: float) -> list[str]:
    """The names of the checks that did not pass with this margin: failed, or nearer to their limit."""
    return [
        str(check["name"])
        for check in checks
        if not check["passed"] or room(float(check["value"]), float(check["limit"])) < margin
    ]


def sentences(policy: Policy) -> list[str]:
    """What will happen under this policy, for the person who sets it."""
    said = []
    if policy.auto_approve:
        by_itself = _(
            "A checkpoint that passed every check of the gate by at least %(margin)s of its limit is approved and goes "
            "live without a person. Not while it is held, while an error notice is unread, or when something else went "
            "live after it was made."
        )
        said.append(by_itself % {"margin": f"{policy.margin:.0%}"})
    elif policy.second_approver:
        said.append(_("A checkpoint goes live after two different people have said yes."))
    else:
        said.append(_("A checkpoint goes live after one person has said yes. Nothing is approved by itself."))
    whom = _("%(share)s %% of the sessions") % {"share": policy.trial_share}
    if not policy.trial_share:
        whom = _("reviewers only")
    if policy.trial_required:
        trial = _("Before that, it must have been tried with %(whom)s, and have come out better or no worse.")
    else:
        trial = _("A trial is up to you; one takes %(whom)s unless you say otherwise.")
    said.append(trial % {"whom": whom})
    looked_at = _limits(policy)
    if policy.guard == "off" or not looked_at:
        return [*said, _("Nothing watches what is live.")]
    if policy.guard == "roll back":
        guard = ngettext(
            "Once what is live has written %(n)s reply, and compared with what answered before: %(limits)s: then it is "
            "rolled back, and you are told.",
            "Once what is live has written %(n)s replies, and compared with what answered before: %(limits)s: then it "
            "is rolled back, and you are told.",
            policy.guard_replies,
        )
    else:
        guard = ngettext(
            "Once what is live has written %(n)s reply, and compared with what answered before: %(limits)s: then you "
            "are told, and it stays.",
            "Once what is live has written %(n)s replies, and compared with what answered before: %(limits)s: then you "
            "are told, and it stays.",
            policy.guard_replies,
        )
    return [*said, guard % {"n": policy.guard_replies, "limits": "; ".join(looked_at)}]


def _limits(policy: Policy) -> list[str]:
    limits = (
        (policy.guard_thumbs, ".0%", _("if thumbs down rise by more than %(limit)s")),
        (policy.guard_errors, ".0%", _("if more than %(limit)s of replies fail")),
        (policy.guard_length, "g", _("if replies get more than %(limit)s times longer or shorter")),
        (policy.guard_refusals, ".0%", _("if refusals rise by more than %(limit)s")),
        (policy.guard_repetition, ".0%", _("if repetition rises by more than %(limit)s")),
    )
    return [said % {"limit": format(limit, form)} for limit, form, said in limits if limit is not None]
