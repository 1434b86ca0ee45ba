"""What a judge's votes count: the floor, stated in words and numbers, and an operator's last word.

The rule, for each judge with each version of its prompts:

* Measured on are the gold follow-ups (its newest reading of each) and the newest 300 turns that a person's thumb
  decided and that it voted on. What it could not read counts as wrong.
* Fewer than 30 measured: weight 0. Nothing is known of it: its votes are cast and shown, and count for nothing.
* Else what counts is the lower end of the 95 % interval (Wilson's) of its accuracy. At 0.75 or more: weight 1. Below,
  the weight falls in a straight line, to 0 at 0.5.
* At weight 0 it has stopped: no verdict asks it, until it is measured anew and does better, or an operator overrules.
* An operator may set a weight from 0 to 1, with a reason. It holds until it is given back to the rule.

Measurements do not grow old: a judge that has stopped does not come back because time went by.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from core.errors import TalkbackError
from judge.calibration import scales
from judge.calibration.agreement import Agreement, Reading, agreement
from judge.calibration.scales import Found
from judge.models import Ruling, Vote
from judge.votes import voting

LEAST = 30
"""Follow-ups that must be measured before anything is said of a judge."""
UNKNOWN = 0.0
"""What a judge counts of which fewer were measured."""
FLOOR = 0.75
"""Lower end of the accuracy's interval below which a judge loses weight."""
NOTHING = 0.5
"""Where no weight is left: a coin does as well on what a thumb decides."""
THUMBS = 300
"""How many of the newest turns that a thumb decided are measured on."""
UNHEARD = ("unreachable", "too late")
"""How failures begin that say nothing of what a judge thinks: its server was away, or the machine was busy."""
KEPT_S = 30.0
"""How long a weight is kept in this process before it is worked out again."""


def rule() -> str:
    """The rule in words, for the judges' pages."""
    return _(
        "Fewer than %(least)s follow-ups measured: it votes and counts for nothing, since nothing is known of it. Else "
        "the lower end of the 95 %% interval of its accuracy decides: from %(floor)s on it counts in full, below that "
        "less and less, and at %(nothing)s or lower not at all. Then it has stopped: no verdict asks it until it is "
        "measured anew or overruled here."
    ) % {"least": LEAST, "floor": FLOOR, "nothing": NOTHING}


class OverrulingRefused(TalkbackError):
    """A weight that there is not, or no reason for it."""

    code, status = "overruling_refused", 422


@dataclass(frozen=True)
class Standing:
    """What one judge counts with one version of its prompts, and why."""

    judge: str
    prompt_version: str
    weight: float
    measured: Agreement
    ruling: Ruling | None = None
    """The operator's word that stands in place of the rule."""

    @property
    def by_rule(self) -> float:
        """What the rule alone would say."""
        return weighed(self.measured)

    @property
    def is_unknown(self) -> bool:
        """True when it was not measured, and no operator spoke: it votes, and counts for nothing."""
        return self.weight == 0 and self.ruling is None and self.measured.measured < LEAST

    @property
    def has_stopped(self) -> bool:
        """True when it was measured and does badly, or an operator stopped it: no verdict asks it."""
        return self.weight == 0 and not self.is_unknown

    @property
    def sentence(self) -> str:
        """Why it counts what it counts."""
        if self.ruling is not None:
            told = {"who": self.ruling.by or _("An operator"), "weight": f"{self.weight:g}", "why": self.ruling.reason}
            return _("%(who)s set it to %(weight)s: %(why)s") % told
        measured = self.measured.measured
        if measured < LEAST:
            if not measured:
                return _("Not measured yet: it votes and counts for nothing. Measure it now.")
            return _(
                "Measured on %(measured)s of the %(least)s that it takes: it votes and counts for nothing. Measure it "
                "now."
            ) % {"measured": measured, "least": LEAST}
        numbers = {"low": f"{self.measured.interval.low:.2f}", "floor": FLOOR, "weight": f"{self.weight:.2f}"}
        if self.weight == 1:
            said = _("The lower end of its accuracy is %(low)s, at or above the floor of %(floor)s: it counts in full.")
        elif self.weight > 0:
            said = _(
                "The lower end of its accuracy is %(low)s, below the floor of %(floor)s: it counts %(weight)s of a "
                "vote."
            )
        else:
            said = _(
                "The lower end of its accuracy is %(low)s: it has stopped, and no verdict asks it until it is measured "
                "anew or overruled."
            )
        return said % numbers


def weighed(measured: Agreement) -> float:
    """The rule: from measurements to a weight between 0 and 1."""
    if measured.measured < LEAST:
        return UNKNOWN
    return round(min(1.0, max(0.0, (measured.interval.low - NOTHING) / (FLOOR - NOTHING))), 4)


def standing(judge: str, prompt_version: str) -> Standing:
    """What this judge counts now."""
    readings = [*gold_readings(judge, prompt_version), *thumb_readings(judge, prompt_version)]
    return standing_by(judge, prompt_version, readings, _ruling(judge, prompt_version))


def standing_by(judge: str, prompt_version: str, readings: Iterable[Reading], ruling: Ruling | None) -> Standing:
    """The same, by these readings and an operator's word on its weight."""
    measured = agreement(list(readings))
    weight = weighed(measured) if ruling is None else float(ruling.after["weight"])
    return Standing(judge, prompt_version, weight, measured, ruling)


def weight(judge: str, prompt_version: str) -> float:
    """What it counts now; kept for a moment, since it is asked for with every verdict."""
    return lately(judge, prompt_version).weight


def lately(judge: str, prompt_version: str) -> Standing:
    """`standing`, as it was worked out within the last seconds."""
    now = time.monotonic()
    kept = _kept.get((judge, prompt_version))
    if kept is None or kept[0] < now:
        kept = _kept[judge, prompt_version] = (now + KEPT_S, standing(judge, prompt_version))
    return kept[1]


def forget() -> None:
    """Work every weight out again when it is asked for next."""
    _kept.clear()
    scales.forget()


_kept: dict[tuple[str, str], tuple[float, Standing]] = {}


def overrule(judge: str, prompt_version: str, weight: float | None, *, by: User, reason: str) -> Ruling:
    """Set what this judge counts, whatever the rule says; None gives it back to the rule.

    Raises OverrulingRefused for a weight that is not between 0 and 1, and without a reason.
    """
    if weight is not None and not 0 <= weight <= 1:
        raise OverrulingRefused(_("A weight is a number from 0 (never asked) to 1 (counts in full)."))
    if not reason.strip():
        raise OverrulingRefused(_("Say in a few words why, so that others can follow."))
    about = {"judge": judge, "prompt_version": prompt_version}
    with transaction.atomic():
        before = _ruling(judge, prompt_version)
        ruling = Ruling.objects.create(
            verb=Ruling.Verb.POLICY,
            by=by,
            before=about | {"weight": before.after["weight"] if before else None},
            after=about | {"weight": weight},
            reason=reason.strip(),
        )
    _kept.pop((judge, prompt_version), None)
    return ruling


def set_threshold(judge: str, prompt_version: str, threshold: float | None, *, by: User, reason: str) -> Ruling:
    """Set how sure this judge must be of a verdict, whatever the rule says; None gives it back to the rule.

    Raises OverrulingRefused for a threshold that is not between 0.5 and 1, and without a reason.
    """
    if threshold is not None and not 0.5 <= threshold <= 1:
        raise OverrulingRefused(_("A threshold is a probability from 0.5 (more likely than not) to 1 (never)."))
    if not reason.strip():
        raise OverrulingRefused(_("Say in a few words why, so that others can follow."))
    about = {"judge": judge, "prompt_version": prompt_version}
    with transaction.atomic():
        before = scales.threshold_ruling(judge, prompt_version)
        ruling = Ruling.objects.create(
            verb=Ruling.Verb.POLICY,
            by=by,
            before=about | {"threshold": before.after["threshold"] if before else None},
            after=about | {"threshold": threshold},
            reason=reason.strip(),
        )
    scales.forget(judge, prompt_version)
    return ruling


def _ruling(judge: str, prompt_version: str) -> Ruling | None:
    """The operator's word on its weight that stands, if one does."""
    return scales.last_word(scales.rulings_on(judge, prompt_version), "weight")


def gold_readings(judge: str, prompt_version: str) -> list[Reading]:
    """This judge's newest reading of each gold follow-up, oldest first."""
    return readings_of(scales.found_of(judge, prompt_version))


def readings_of(found: Iterable[Found]) -> list[Reading]:
    return [Reading(one.expected, one.said, one.role, one.at) for one in found]


def thumb_readings(judge: str, prompt_version: str) -> list[Reading]:
    """The newest turns that a person's thumb decided, as this judge's own votes read them; oldest first.

    Votes that were never heard say nothing of the judge; they are left out.
    """
    votes = (
        Vote.objects.filter(judge=judge, prompt_version=prompt_version, question=Vote.Question.SCORE)
        .filter(turn__judgement__reward_from="thumb", turn__judgement__reward__isnull=False)
        .exclude(unheard())
        .order_by("-pk")
        .values_list("turn", "index", "score", "role", "cast_at", "turn__judgement__reward")
    )
    cast: dict[object, dict[int, int | None]] = defaultdict(dict)
    facts: dict[object, tuple[int, str, datetime]] = {}
    for turn, index, score, role, at, expected in votes[
        : THUMBS * 10
    ]:  # newest first: a vote asked for again counts once
        cast[turn].setdefault(index, score)
        facts.setdefault(turn, (int(expected or 0), role or "user", at))
    newest = list(facts.items())[:THUMBS]
    return [
        Reading(expected, said_by(cast[turn].values()), role, at) for turn, (expected, role, at) in reversed(newest)
    ]


def unheard() -> Q:
    """Votes that failed for no fault of the judge's."""
    return reduce(or_, (Q(failure__startswith=words) for words in UNHEARD))


def said_by(scores: Iterable[int | None]) -> int | None:
    """What one judge's own votes on a turn come to, each in full."""
    return voting.outcome(list(scores)).reward
