"""Show an exam on the checkpoint's page: what changed, corrected questions asked again, and how it was decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.utils.translation import gettext as _

from chat.models import Turn
from checkpoints.models import Checkpoint
from core.statistics import Interval
from feedback.models import Feedback
from gate import asked_again, general_pack, personal_part, reply_figures, wording
from gate.models import AskedAgain, Examination
from gate.wording import Meaning, Verdict
from judge.models import Judgement
from webapp.console.review import differences
from webapp.console.review.differences import Piece

SHOWN = 12
"""Items of the pack that are listed: those that changed most for the worse."""


WORDS = 60
"""Words of a reply that are shown at once; the rest unfolds."""


@dataclass(frozen=True)
class Side:
    """One of two replies: its words in pieces, those that unfold apart."""

    pieces: Sequence[Piece]
    rest: Sequence[Piece]
    more: int
    """How many words unfold."""
    words: int
    is_cut: bool = False
    """It came to its length limit."""

    @classmethod
    def of(cls, pieces: Sequence[Piece], *, is_cut: bool = False) -> Side:
        text = "".join(piece.text for piece in pieces)
        return cls(*differences.shorten(pieces, WORDS), reply_figures.words(text), is_cut)


@dataclass(frozen=True)
class Again:
    """A corrected question: the reply that was corrected, what was taught, and what the candidate says now."""

    turn: Turn
    question: str
    kind: str
    """What was taught: rewrite, guidance or hint; empty: nothing of it can be shown any more."""
    lesson: str
    before: Side
    after: Side
    now: Side | None
    """What the live checkpoint says now; None where it wrote the corrected reply itself."""
    is_own: bool
    """Whether it is the looking person's own question."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.before, self.after


@dataclass(frozen=True)
class Checked:
    """A check with its meaning."""

    check: Mapping[str, Any]
    meaning: Meaning


@dataclass(frozen=True)
class Pair:
    """One held-out prompt and both replies, with what each number beside them means."""

    id: str
    prompt: str
    live: Side
    candidate: Side
    figures: Sequence[tuple[str, float | None, float | None]]
    """(what it means, live's, the candidate's)"""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.live, self.candidate


@dataclass(frozen=True)
class Gauge:
    """A figure of the overfitting meter with its meaning."""

    gauge: Mapping[str, Any]
    meaning: Meaning


@dataclass(frozen=True)
class Asked:
    """An item of the general pack whose answer moved, as the page shows it."""

    id: str
    prompt: str
    right: str
    wrong: str
    """The wrong answer that the candidate finds likeliest."""
    change: float
    is_lost: bool


@dataclass(frozen=True)
class Kept:
    """A kept correction as both did on it."""

    id: str
    turn: Turn | None
    """None: it was deleted since."""
    kind: str
    live: float | None
    candidate: float | None
    change: float | None
    taught: bool
    """Whether the candidate was taught something of its kind."""


@dataclass(frozen=True)
class Standing:
    """One person's kept corrections, or everybody's."""

    who: str
    found: Interval
    is_known: bool
    is_worse: bool
    missing: int
    """How many more it takes until anything is known."""


def panel(checkpoint: Checkpoint, user: User) -> Mapping[str, Any] | None:
    """The exam's parts; None before there are any."""
    exam: Examination | None = getattr(checkpoint, "examination", None)
    if exam is None or not (exam.pack or exam.personal or exam.meter):
        return None
    rows = [general_pack.Row.read(row) for row in exam.pack]
    corrections = [personal_part.Row.read(row) for row in exam.personal]
    return {
        "exam": exam,
        "checkpoint": checkpoint,
        "pack": general_pack.outcome(rows),
        "moved": moved(rows),
        "people": people(personal_part.outcome(corrections)),
        "kept": kept(corrections),
        "meter": [Gauge(gauge, wording.explain_check(gauge["name"])) for gauge in exam.meter.values()],
    }


def verdict(exam: Examination | None) -> Verdict | None:
    """What changed, in words; None before there is anything to say."""
    if exam is None or not exam.checks:
        return None
    return wording.word_verdict(
        exam.checks, exam.pairs, general_pack.outcome([general_pack.Row.read(row) for row in exam.pack])
    )


def checks(exam: Examination | None) -> list[Checked]:
    """The exam's checks, each with what it asks."""
    return [Checked(check, wording.explain_check(check["name"])) for check in (exam.checks if exam else ())]


def again(exam: Examination | None, user: User) -> list[Again]:
    """Corrected questions that were asked again, as far as this person may read them, the newest first."""
    if exam is None:
        return []
    rows = AskedAgain.objects.visible_to(user).filter(examination=exam)
    rows = rows.select_related("turn__session", "turn__judgement").defer("turn__judgement__teacher")
    if not rows:
        return []
    turns = [row.turn_id for row in rows]
    said: dict[UUID, list[Feedback]] = defaultdict(list)
    for one in Feedback.objects.standing().filter(turn__in=turns).order_by("pk"):
        said[one.turn_id].append(one)
    return [_again(row, said[row.turn_id], getattr(row.turn, "judgement", None), exam, user) for row in rows]


def _again(
    row: AskedAgain, said: Sequence[Feedback], judgement: Judgement | None, exam: Examination, user: User
) -> Again:
    turn = row.turn
    kind, lesson = asked_again.lesson_of(judgement, said)
    before, after = differences.between(turn.text, row.candidate)
    by_live = turn.checkpoint_id == exam.against_id
    return Again(
        turn,
        asked_again.question_of(turn),
        kind,
        lesson,
        Side.of(before, is_cut=turn.is_cut),
        Side.of(after, is_cut=asked_again.CANDIDATE in row.cut),
        None if by_live else Side.of([Piece(row.live, False)], is_cut=asked_again.LIVE in row.cut),
        turn.session.user_id == user.pk,
    )


def pairs(exam: Examination | None) -> list[Pair]:
    """The held-out prompts with both replies."""
    return [_pair(pair) for pair in (exam.pairs if exam else ())]


def _pair(pair: Mapping[str, Any]) -> Pair:
    live, candidate = differences.between(str(pair.get("live", "")), str(pair.get("candidate", "")))
    names = dict.fromkeys(
        name.partition("_")[2] for name, value in pair.items() if isinstance(value, (int, float)) and "_" in name
    )
    numbers = [
        (wording.explain_figure(name), pair.get(f"live_{name}"), pair.get(f"candidate_{name}")) for name in names
    ]
    return Pair(pair.get("id", ""), pair.get("prompt", ""), Side.of(live), Side.of(candidate), numbers)


def has_marks(shown: Sequence[Again] | Sequence[Pair]) -> bool:
    """Whether anything in these replies is marked: without a mark there is no legend."""
    return differences.has_marks(*((*side.pieces, *side.rest) for one in shown for side in one.sides))


def moved(rows: Sequence[general_pack.Row]) -> list[Asked]:
    """The items that were lost, and then those that came nearest to it, the plainest first."""
    known = {item.mark: item for item in general_pack.items()}
    falling = sorted((row for row in rows if row.change < 0), key=lambda row: (not row.is_lost, row.change))
    found = []
    for row in falling[:SHOWN]:
        item = known.get(row.mark)
        said = item.wrong[row.candidate.wrong.index(max(row.candidate.wrong))] if item and item.wrong else ""
        gone = _("%(item)s, which the pack has no more") % {"item": row.item}
        prompt, right = (item.prompt, item.right) if item else (gone, "")
        found.append(Asked(row.item, prompt, right, said, row.change, row.is_lost))
    return found


def kept(rows: Sequence[personal_part.Row]) -> list[Kept]:
    """The kept corrections, the worst first; those that could not be asked last."""
    turns = Turn.objects.select_related("judgement").in_bulk([UUID(row.turn) for row in rows])
    ordered = sorted(rows, key=lambda row: (row.change is None, row.change or 0.0))
    return [
        Kept(row.turn, turns.get(UUID(row.turn)), row.kind, row.live, row.candidate, row.change, row.taught)
        for row in ordered
    ]


def people(found: personal_part.Outcome) -> list[Standing]:
    """Everybody together, then each person, the worst first."""
    if found.all is None:
        return []
    names = dict(get_user_model().objects.filter(pk__in=found.people).values_list("pk", "username"))
    each = sorted(found.people.items(), key=lambda item: item[1].mean)
    whose = [(_("everybody"), found.all), *((names.get(person, _("a person who left")), one) for person, one in each)]
    return [
        Standing(who, one, found.is_known(one), found.is_worse(one), max(0, personal_part.ENOUGH - one.number))
        for who, one in whose
    ]
