"""Did talking help? What people's own words, their blind choices and the frozen control say of what was learned, for
one person or for a line.

Nothing here is off the record, and nothing holds a word that a person wrote: counts and figures only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import (
    CharField,
    Count,
    Exists,
    Expression,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    Window,
)
from django.db.models.functions import Cast, Coalesce
from django.utils.translation import gettext as _

from chat.models import Turn
from checkpoints.models import LIVE, MINE, SHARED, Checkpoint, Decision, Line, Member
from core import statistics
from core.statistics import Arm, Interval, Reading, Tally, count_arms
from evaluation import blind, firsts, shadows, watching
from evaluation.firsts import First, Moment
from evaluation.models import BlindChoice, Shadow
from evaluation.pair_figures import Compared, compare
from feedback.models import Feedback
from gate import general_pack
from gate.models import Examination
from training import config
from training.models import Run

MOST = 5_000
"""Replies that are looked at for thumbs and regenerations, the newest."""

NEWEST = 200
"""Pairs of a reply and its shadow whose figures are compared, the newest."""


@dataclass(frozen=True)
class Contrast:
    """What the base's replies came to, and those of all that was learned."""

    base: Arm
    learned: Arm
    reading: Reading

    @classmethod
    def between(cls, arms: Mapping[int, Arm], live: int) -> Contrast:
        """Of arms by their checkpoint's number. All coming votes are expected to fall to what is live."""
        base, learned = arms.get(0, Arm()), sum((arm for number, arm in arms.items() if number), Arm())
        return cls(base, learned, statistics.compare(base, learned, share=float(live > 0)))

    @property
    def has_both(self) -> bool:
        return bool(self.base.votes and self.learned.votes)


@dataclass(frozen=True)
class General:
    """The general pack, as what is live does on it, beside the base or whatever the exam held it against."""

    against: Checkpoint
    before: float
    now: float
    found: Interval
    """Of the change of the share that is right."""
    asked: int
    lost: int

    @property
    def is_worse(self) -> bool:
        return self.found.high < 0


@dataclass(frozen=True)
class OfCheckpoint:
    """What one checkpoint's replies came to."""

    number: int
    firsts: Arm
    thumbs: Arm
    choices: Tally
    """The first is the checkpoint, the second the control."""
    regenerated: Arm
    """Replies that were kept, and replies that were asked for once more."""

    @property
    def preferred_of(self) -> int:
        """Choices that were for either."""
        return self.choices.first + self.choices.second


@dataclass(frozen=True)
class Evidence:
    """All there is to say, for one person or a line."""

    line: str
    live: Checkpoint
    replies: int
    """Main-line ones on the record, of those that were looked at."""
    firsts: Sequence[First]
    moments: Sequence[Moment]
    went_live: Sequence[tuple[datetime, int]]
    """When, and which: promotions and steps back, the oldest first."""
    scores: Contrast
    """Of first replies."""
    thumbs: Contrast
    thumbs_given: int
    """All of them; of each conversation and checkpoint only the first is a vote."""
    regenerated: Contrast
    choices: Tally
    """Blind ones: what was learned first, the control second."""
    pairs: int
    """Turns with a shadow."""
    figures: Sequence[Compared]
    general: General | None
    checkpoints: Sequence[OfCheckpoint]

    @property
    def scored(self) -> int:
        """First replies of which it is known how they were received."""
        return len(self.moments)

    @property
    def said(self) -> int:
        """Those of which their person said so."""
        return sum(row.is_said for row in self.firsts if row.score is not None)

    @property
    def is_learned(self) -> bool:
        """Whether anything that was learned has answered here."""
        return any(one.number for one in self.checkpoints)

    @property
    def worse(self) -> list[str]:
        """What got worse, a sentence each."""
        found = [figure.sentence for figure in self.figures if figure.is_worse]
        if self.scores.reading.verdict == "worse":
            found.append(
                _("First replies: fewer people were content with those of what was learned than with the base’s.")
            )
        if self.thumbs.reading.verdict == "worse":
            found.append(_("Thumbs: a smaller share is up since something was learned."))
        if self.choices.is_known and self.choices.ahead == "second":
            found.append(_("Blind choices: the base’s answers are preferred to those of what was learned."))
        if self.general is not None and self.general.is_worse:
            said = _("General knowledge: of %(asked)s questions it has %(lost)s wrong that %(before)s had right.")
            told = {"asked": self.general.asked, "lost": self.general.lost, "before": self.general.against}
            found.append(said % told)
        if self.regenerated.reading.high < 0:
            found.append(_("Regenerations: its replies are asked for once more, oftener than the base’s."))
        return found


def of_person(user: User) -> Evidence:
    """Of this person's own turns alone."""
    turns = Turn.objects.visible_to(user).filter(line=Turn.Line.MAIN)
    own = Member.objects.filter(user=user).values("line")[:1]
    line = Coalesce(Subquery(own), Value(SHARED), output_field=CharField())
    return _evidence(_on_record(turns), line, MINE.build(user.pk), blind.choices_of(user))


def of_line(line: Line) -> Evidence:
    """Of everybody who talks to this line now, counted together."""
    turns = _on_record(watching.of_line(line.name))
    choices = BlindChoice.objects.filter(
        Exists(_shadows(turns).filter(pk=OuterRef("shadow"))), by=F("shadow__turn__session__user")
    )
    return _evidence(turns, Value(line.name), LIVE.build(line.name), choices)


def _on_record(turns: QuerySet[Turn]) -> QuerySet[Turn]:
    return turns.filter(learns=True, session__learns=True)


def _shadows(turns: QuerySet[Turn]) -> QuerySet[Shadow]:
    """The control's answers beside what something that was learned answered."""
    beside = shadows.standing().filter(shadows.of_these(turns), checkpoint__number=0)
    return beside.exclude(turn__checkpoint__number=0)


def _evidence(
    turns: QuerySet[Turn], of: Expression, answering: QuerySet[Checkpoint], choices: QuerySet[BlindChoice]
) -> Evidence:
    begun = firsts.firsts(turns)
    scores = firsts.arms(begun)
    thumbs, given = _thumbs(turns)
    regenerated = _regenerated(turns)
    picked = list(choices.values_list("shadow__turn__checkpoint__number", "picked"))
    beside = _shadows(turns)
    newest = beside.annotate(every=Window(Count("*"))).order_by("-turn__created_at", "-pk")
    pairs = list(newest.values_list("figures", "every")[:NEWEST])
    known = Checkpoint.objects.select_related("run", "examination__against").annotate(of=of)
    base, *learned = known.filter(Q(pk__in=answering.values("pk")) | Q(number=0)).order_by("number")
    line, live = base.of, [base, *learned][-1]
    limits = config.gate_of(run.recipe if (run := Run.that_made(live)) else {})
    numbers = sorted({*scores, *thumbs, *regenerated, *(number for number, _ in picked)})
    return Evidence(
        line=line,
        live=live,
        replies=sum(arm.votes for arm in regenerated.values()),
        firsts=begun,
        moments=firsts.running(begun),
        went_live=_went_live(line),
        scores=Contrast.between(scores, live.number),
        thumbs=Contrast.between(thumbs, live.number),
        thumbs_given=given,
        regenerated=Contrast.between(regenerated, live.number),
        choices=blind.tally(one for _, one in picked),
        pairs=pairs[0][1] if pairs else 0,
        figures=compare([figures for figures, _every in pairs], limits),
        general=_general(live, base),
        checkpoints=[
            OfCheckpoint(
                number,
                scores.get(number, Arm()),
                thumbs.get(number, Arm()),
                blind.tally(one for at, one in picked if at == number),
                regenerated.get(number, Arm()),
            )
            for number in numbers
        ],
    )


def _thumbs(turns: QuerySet[Turn]) -> tuple[dict[int, Arm], int]:
    """One vote a conversation and checkpoint, its first thumb, by the checkpoint's number; and how many thumbs there
    are."""
    given = Feedback.objects.standing().filter(
        Exists(turns.filter(pk=OuterRef("turn"))),
        by=F("turn__session__user"),
        kind=Feedback.Kind.THUMB,
        value__in=(1, -1),
    )
    newest = given.order_by("-created_at", "-pk").values_list("turn__session", "turn__checkpoint__number", "value")
    rows = list(newest[:MOST])
    votes: dict[tuple[Any, int], int] = {}
    for session, number, value in reversed(rows):
        votes.setdefault((session, number), value)
    return count_arms((number, value > 0) for (_, number), value in votes.items()), len(rows)


def _regenerated(turns: QuerySet[Turn]) -> dict[int, Arm]:
    """Whole replies that were kept, and those that were asked for once more, by checkpoint."""
    whole = turns.filter(finish_reason__in=firsts.WHOLE).order_by("-created_at")
    # All keys are put in order, and the newest rows alone are read.
    newest = Turn.objects.filter(pk__in=whole.values("pk")[:MOST]).order_by().annotate(told=Cast("marks", TextField()))
    again = Count("pk", filter=Q(told__contains='"regenerated"'))
    rows = newest.values("checkpoint__number").annotate(every=Count("pk"), again=again)
    counts = rows.order_by("checkpoint__number").values_list("checkpoint__number", "every", "again")
    return {number: Arm(every - again, again) for number, every, again in counts}


def _went_live(line: str) -> list[tuple[datetime, int]]:
    moves = Decision.objects.filter(verb__in=(Decision.Verb.PROMOTE, Decision.Verb.ROLL_BACK))
    of_it = moves.filter(Q(line=line) | Q(line=None, checkpoint__line=line))
    return list(of_it.order_by("at", "pk").values_list("at", "checkpoint__number"))


def _general(live: Checkpoint, base: Checkpoint) -> General | None:
    """None while nothing is learned, and where no exam asked the pack."""
    exam: Examination | None = getattr(live, "examination", None)
    if exam is None or not exam.pack or live.pk == base.pk:
        return None
    rows = [general_pack.Row.read(row) for row in exam.pack]
    known = general_pack.known(base)
    beside = [general_pack.Row(row.item, row.mark, known[row.mark], row.candidate) for row in rows if row.mark in known]
    return general(base, beside) if len(beside) == len(rows) else general(exam.against, rows)


# Pure


def general(against: Checkpoint, rows: Sequence[general_pack.Row]) -> General | None:
    """What the pack's answers come to, with a paired bootstrap interval; None where none can be wrong."""
    found = general_pack.outcome(rows)
    if found is None:
        return None
    changes = [float(bool(row.candidate.is_right)) - float(bool(row.live.is_right)) for row in rows if row.live.wrong]
    return General(against, found.live, found.candidate, statistics.bootstrap(changes), found.asked, len(found.lost))
