"""What votes on the steps of one world are worth: measured on steps of which something surer is known.

A step judge that is wrong ruins what the outcome teaches: at 85 % right votes it helps, at 70 % it hurts, at random it
destroys. So votes count nothing until the judges that
cast them were right often enough in this very world, on steps that the world itself, a test or a visible rule scored.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext

from chat.models import Turn
from core.statistics import wilson
from judge.calibration import scales, vote_floor
from judge.models import Vote
from judge.votes import casting, judges, polling
from judge.votes.judge import Panel
from judge.votes.step_scores import WORLD
from judge.votes.voting import Outcome

LEAST = 100
"""Steps on which they called, before anything is said of them."""
FLOOR = 0.8
"""Lower end of the interval of their balanced accuracy below which votes count nothing: between 0.70 and 0.85 lies
where step votes begin to hurt."""
NEWEST = 1000
"""How many of the newest checked steps are counted."""
ONE_IN = 32
"""Once they are measured, of so many ruled steps one is voted on, so that a judge that grows worse is noticed."""
CHECKED = (WORLD, "test", "rule")
"""Who says what a vote is held against."""
WINDOW = timedelta(hours=1)
"""How old a verdict may be to be voted on afterwards."""
LOOKED_AT = 200
KEPT_S = 30.0
"""How long a figure is kept in this process before it is worked out again."""


@dataclass(frozen=True)
class Checks:
    """How often votes said what of steps whose sign is known: (known, said) with known −1 or 1, said −1, 0, 1, None."""

    counts: Counter[tuple[int, int | None]]

    @property
    def calls(self) -> int:
        """Steps on which they said −1 or 1; an abstention is no call."""
        return self.called(1) + self.called(-1)

    @property
    def accuracy(self) -> float | None:
        """Balanced: the mean of the share of good steps called good and of bad ones called bad. "Always good" comes to
        one half, however many are. None while a side has no call."""
        if not (self.called(1) and self.called(-1)):
            return None
        return (self._rate(1) + self._rate(-1)) / 2

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval: each rate's by Wilson, the mean's by adding their squared widths (Zou and
        Donner 2008). 0 while nothing is known."""
        accuracy = self.accuracy
        if accuracy is None:
            return 0.0
        widths = [self._rate(sign) - wilson(self.counts[sign, sign], self.called(sign)).low for sign in (1, -1)]
        return accuracy - math.hypot(*widths) / 2

    def called(self, known: int) -> int:
        return self.counts[known, 1] + self.counts[known, -1]

    def _rate(self, sign: int) -> float:
        return self.counts[sign, sign] / self.called(sign)


def weigh(checks: Checks) -> float:
    """What each vote counts: 2 · the lower end − 1, or nothing below the floor or on too few calls.

    >>> weigh(Checks(Counter({(1, 1): 60, (-1, -1): 40}))) > 0.9, weigh(Checks(Counter({(1, 1): 100})))
    (True, 0.0)
    """
    if checks.calls < LEAST or checks.low < FLOOR:
        return 0.0
    return round(2 * checks.low - 1, 4)


@dataclass(frozen=True)
class Worth:
    """What votes of these judges count in one world, and why."""

    world: str
    judges: str
    """Their names with the versions of their prompts: others are measured anew."""
    accuracy: float | None
    low: float
    n: int
    """Steps on which they called."""
    worth: float
    """0 to 1: a vote is multiplied by it."""
    is_off: bool = False
    """JUDGE_TEACHES=0: no votes teach here, whatever they are worth."""

    @property
    def sentence(self) -> str:
        """What votes count, and why, in the reader's language."""
        if self.is_off:
            return gettext("JUDGE_TEACHES=0: votes count nothing, and the outcome teaches.")
        if self.n < LEAST or self.accuracy is None:
            said = gettext(
                "Votes count nothing in %(world)s: checked on %(calls)s of the %(least)s steps that it takes."
            )
            return said % {"world": self.world, "calls": self.n, "least": LEAST}
        found = {"world": self.world, "calls": self.n, "floor": FLOOR, "worth": f"{self.worth:.2f}"}
        found |= {"accuracy": f"{self.accuracy:.2f}", "low": f"{self.low:.2f}"}
        if not self.worth:
            return (
                gettext(
                    "On %(calls)s steps of %(world)s their balanced accuracy is %(accuracy)s, at least %(low)s, "
                    "below the floor of %(floor)s: votes count nothing."
                )
                % found
            )
        return (
            gettext(
                "On %(calls)s steps of %(world)s their balanced accuracy is %(accuracy)s, at least %(low)s: "
                "a vote counts %(worth)s."
            )
            % found
        )


def of(world: str, who: Panel | None = None) -> Worth:
    """What votes of these judges, or of this installation's, count in this world now. Raises JudgesInvalid."""
    panel = polling.several(judges.panel() if who is None else who)
    name = ", ".join(sorted(f"{one.name} {one.version}" for one in panel))
    now = time.monotonic()
    kept = _kept.get((world, name))
    if kept is None or kept[0] < now:
        kept = _kept[world, name] = (now + KEPT_S, _word(world, name, check(world, panel)))
    return kept[1]


def forget() -> None:
    """Work each figure out again when it is asked for next."""
    _kept.clear()


_kept: dict[tuple[str, str], tuple[float, Worth]] = {}


def _word(world: str, name: str, checks: Checks) -> Worth:
    is_off = settings.JUDGE_TEACHES is not None and not settings.JUDGE_TEACHES
    worth = 0.0 if is_off else weigh(checks)
    return Worth(world, name, checks.accuracy, checks.low, checks.calls, worth, is_off)


def check(world: str, who: Panel) -> Checks:
    """What votes of these judges said of the newest steps of this world of which something surer is known."""
    versions = {one.name: one.versions for one in polling.several(who)}
    rows = (
        Vote.objects.filter(question=Vote.Question.SCORE, judge__in=versions)
        .filter(turn__session__episode__group__world=world)
        .filter(turn__judgement__reward__in=(1, -1), turn__judgement__reward_from__in=CHECKED)
        .exclude(vote_floor.unheard())
        .order_by("-pk")
        .select_related("turn__judgement")
        .only(*VOTE, "turn__judgement__reward")
    )
    cast = defaultdict[UUID, list[Vote]](list)
    known: dict[UUID, int] = {}
    for vote in rows[: NEWEST * 8].iterator():
        votes = cast[vote.turn_id] if vote.turn_id in cast or len(cast) < NEWEST else []
        if vote.prompt_version in versions[vote.judge] and all(vote.evidence == one.evidence for one in votes[:1]):
            votes.append(vote)
            known[vote.turn_id] = int(vote.turn.judgement.reward or 0)
    said = {turn: find(votes, who).reward for turn, votes in cast.items() if votes}
    return Checks(Counter((known[turn], one) for turn, one in said.items()))


VOTE = (
    "pk", "turn", "question", "index", "judge", "prompt_version", "role", "weight", "evidence", "score", "topic",
    "probabilities", "hint", "failure",
)  # fmt: skip


def find(votes: Iterable[Vote], who: Panel) -> Outcome:
    """What votes on one step come to. Each counts in full: what it is worth is measured here, in its world."""
    ballots = [replace(casting.ballot_of(vote), weight=1.0) for vote in votes]
    measures = {one.name: scales.of(one.name, one.version) for one in polling.several(who)}
    return polling.finding(ballots, measures).score


def next_check(who: Panel) -> Turn | None:
    """A step that was scored lately by something surer than votes, and that these judges are to vote on: each, until
    they are measured in its world, then one in ONE_IN."""
    steps = (
        Turn.objects.filter(status=Turn.Status.JUDGED, votes=None, session__episode__isnull=False)
        .filter(judgement__reward__in=(1, -1), judgement__reward_from__in=CHECKED)
        .filter(judgement__judged_at__gt=timezone.now() - WINDOW)
        .exclude(judgement__evidence="")  # nothing came back that a judge could read
        .order_by("-judgement__judged_at", "pk")
    )
    for pk, world in steps.values_list("pk", "session__episode__group__world")[:LOOKED_AT]:
        if of(world, who).n < LEAST or pk.int % ONE_IN == 0:
            return Turn.objects.select_related("session").get(pk=pk)
    return None
