"""What the pages of judges show: how well each was measured, what its votes cost, and where it read otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.db.models import Avg, Count, Q, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from chat.models import Turn
from judge.calibration import gold, scales, thresholds, verdict_figures, vote_floor
from judge.calibration import measuring as calibration
from judge.calibration.agreement import SCORES, Agreement, Reading, agreement, over_time
from judge.calibration.gold import Item
from judge.calibration.records import Record, Records
from judge.calibration.scales import Measure
from judge.calibration.thresholds import Point
from judge.calibration.vote_floor import Standing
from judge.models import GoldReading, Measuring, Vote
from judge.votes import judges, prompts
from judge.votes.judge import Judge
from judge.votes.judges import Sight
from webapp.charts import accuracy

COSTS = timedelta(days=30)
"""How far back votes are looked at for what they cost."""
SHOWN = 20
"""How many disagreements are listed at once."""


@dataclass(frozen=True)
class Cost:
    """What a vote of this judge takes."""

    votes: int = 0
    seconds: float | None = None
    tokens: float | None = None
    prompt_tokens: float | None = None
    cached: float | None = None
    """Share of the prompts' tokens that had been computed already."""
    failed: float | None = None


@dataclass(frozen=True)
class Measured:
    """One judge with one version of its prompts, against both yardsticks."""

    name: str
    version: str
    gold: Sequence[Reading] = field(repr=False)
    thumbs: Sequence[Reading] = field(repr=False)

    @property
    def yardsticks(self) -> list[tuple[str, Agreement, str]]:
        """(what it is measured against, how well it agrees, what to do where nothing was measured)."""
        thumbs_lack = _("No turn that it voted on was decided by a thumb yet.")
        return [
            (_("people’s thumbs"), agreement(self.thumbs), thumbs_lack),
            (_("gold follow-ups"), agreement(self.gold), _("None read yet: measure it.")),
        ]

    @property
    def query(self) -> str:
        return urlencode({"name": self.name, "version": self.version})


@dataclass(frozen=True)
class Seat:
    """One judge of the panel as the page lists it."""

    who: Judge
    standing: Standing
    measured: Measured
    cost: Cost
    measuring: Measuring | None
    last: Measuring | None
    """Its measuring before, when that ended with something to say."""
    sight: Sight
    done: int = 0
    measure: Measure = scales.PLAIN

    @property
    def point(self) -> Point | None:
        """What its threshold does on the gold follow-ups."""
        return thresholds.point_at(self.measure.scores, self.measure.least)

    @property
    def error(self) -> float | None:
        """The expected calibration error."""
        return verdict_figures.calibration_error(self.measure.scores)

    @property
    def notice(self) -> str:
        """What it means for people's words that this judge is asked."""
        if not self.who.leaves_machine:
            return ""
        return _("Text of your conversations leaves this machine for %(host)s.") % {"host": self.who.host}


@dataclass(frozen=True)
class Matrix:
    """Expected by said, for one role."""

    role: str
    found: Agreement

    @property
    def rows(self) -> list[tuple[int, list[tuple[int, bool]]]]:
        """(expected, [(count, whether it is right)]), said in the order +1, 0, −1, no verdict."""
        said: tuple[int | None, ...] = (*SCORES, None)
        return [(meant, [(self.found.of(meant, answer), answer == meant) for answer in said]) for meant in SCORES]


@dataclass(frozen=True)
class Disagreement:
    """A follow-up that a judge read otherwise than those who know."""

    expected: int
    said: int | None
    role: str
    request: str
    reply: str
    next_state: tuple[str, ...]
    votes: Sequence[Mapping[str, Any]]
    turn: Turn | None = None
    item: str = ""


def seated(roster: Sequence[Judge], records: Records) -> list[Seat]:
    """Each judge of the roster as the page lists it."""
    sums = votes_cost([(who.name, who.version) for who in roster])
    asked = list(Measuring.objects.filter(judge__in=[who.name for who in roster]))
    seats = []
    for who, sight in zip(roster, judges.sights(roster), strict=True):
        record, of_it = records.of(who.name, who.version), [one for one in asked if one.judge == who.name]
        measuring = next((one for one in of_it if one.finished_at is None), None)
        past = next((one for one in of_it if one.finished_at is not None), None)
        seats.append(
            Seat(
                who,
                record.standing,
                measured_of(record),
                cost_of(sums, record),
                measuring,
                past if past is not None and past.failure else None,
                sight,
                calibration.read_so_far(measuring) if measuring else 0,
                record.measure,
            )
        )
    return seats


def measured_of(record: Record) -> Measured:
    return Measured(record.judge, record.prompt_version, record.gold, record.thumbs)


def versions_of(name: str) -> list[str]:
    """Every version of its prompts that this judge was ever asked with, the newest word last."""
    cast = Vote.objects.filter(judge=name).order_by().values_list("prompt_version", flat=True).distinct()
    read = GoldReading.objects.filter(judge=name).order_by().values_list("prompt_version", flat=True)
    return sorted(cast.union(read))


def former(now: set[tuple[str, str]], records: Records) -> list[Measured]:
    """Judges, and versions of prompts, that were asked once and are not any more."""
    cast = Vote.objects.order_by().values_list("judge", "prompt_version").distinct()
    return [measured_of(records.of(*pair)) for pair in sorted({*cast, *records.read} - now)]


def votes_cost(judges: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """What the votes of the last weeks took, by judge and version of its prompts, of these. One query."""
    of_them = reduce(or_, (Q(judge=name, prompt_version=version) for name, version in judges), Q(pk=None))
    votes = Vote.objects.filter(of_them, cast_at__gte=timezone.now() - COSTS)
    sums = votes.order_by().values("judge", "prompt_version").annotate(
        votes=Count("pk"),
        failed=Count("pk", filter=Q(score=None)),
        seconds=Avg("seconds", filter=Q(score__isnull=False)),
        tokens=Avg("tokens", filter=Q(score__isnull=False)),
        prompt=Sum("prompt_tokens"),
        cached=Sum("cached_tokens"),
    )  # fmt: skip
    return {(one["judge"], one["prompt_version"]): dict(one) for one in sums}


def cost_of(votes: Mapping[tuple[str, str], Mapping[str, Any]], record: Record) -> Cost:
    """What its votes of the last weeks took; where it has cast none, what reading gold took."""
    if sums := votes.get((record.judge, record.prompt_version)):
        number, prompt = sums["votes"], sums["prompt"] or 0
        return Cost(
            number,
            sums["seconds"],
            sums["tokens"],
            prompt / number if prompt else None,
            (sums["cached"] or 0) / prompt if prompt else None,
            sums["failed"] / number,
        )
    rows = record.rows[-200:]
    number = sum(len(row.raw) for row in rows)
    if not number:
        return Cost()
    prompt = sum(row.prompt_tokens for row in rows)
    return Cost(
        number,
        sum(row.seconds for row in rows) / number,
        sum(row.tokens for row in rows) / number,
        prompt / number if prompt else None,
        sum(row.cached_tokens for row in rows) / prompt if prompt else None,
        sum(vote.get("said") is None for row in rows for vote in row.raw) / number,
    )


def drawn(gold_readings: Sequence[Reading], thumbs: Sequence[Reading]) -> accuracy.Accuracy | None:
    days = 1 if len(over_time([*gold_readings, *thumbs])) <= 14 else 7
    series = {_("people’s thumbs"): over_time(thumbs, days=days), _("gold"): over_time(gold_readings, days=days)}
    return accuracy.over_time(series, days=days, floor=vote_floor.FLOOR)


def hint_figures(record: Record) -> dict[str, int] | None:
    """Whether there is a hint, and whether it names the change: of the repository's gold, as it was read last."""
    known: Mapping[str, Item] = gold.by_digest()
    newest = {row.gold: row for row in record.rows if row.gold in known}
    if not newest:
        return None
    pairs = [(known[digest], row) for digest, row in newest.items()]
    wanted = [(item, row) for item, row in pairs if item.wants_hint]
    return {
        "right": sum(row.wants_hint is item.wants_hint for item, row in pairs),
        "of": len(pairs),
        "named": sum(item.is_named_in(row.hint) for item, row in wanted),
        "of_wanted": len(wanted),
    }


def gold_disagreements(record: Record) -> list[Disagreement]:
    newest = {row.item: row for row in record.rows}
    known = gold.by_digest()
    found = []
    for row in newest.values():
        if row.score == row.expected:
            continue
        item = known.get(row.gold)
        texts = (item.request, item.reply, item.next_state) if item else ("", "", ())
        votes = [vote for vote in row.raw if vote.get("question") == "score"]
        found.append(Disagreement(row.expected, row.score, row.role, *texts, votes=votes, item=row.item))
    return found


def thumb_disagreements(name: str, version: str) -> list[Disagreement]:
    votes = Vote.objects.filter(judge=name, prompt_version=version, question=Vote.Question.SCORE)
    votes = votes.filter(turn__judgement__reward_from="thumb").exclude(vote_floor.unheard())
    turns = list(votes.order_by("-pk").values_list("turn", flat=True)[: vote_floor.THUMBS * 3])
    shown = Turn.objects.filter(pk__in=set(turns), learns=True, session__learns=True)
    shown = shown.select_related("judgement", "session")
    by_turn: dict[object, dict[int, Vote]] = defaultdict(dict)
    for vote in votes.filter(turn__in=shown.values("pk")).order_by("pk"):
        by_turn[vote.turn_id][vote.index] = vote
    found = []
    for turn in shown.order_by("-created_at"):
        cast = by_turn[turn.pk]
        said = vote_floor.said_by(vote.score for vote in cast.values())
        expected = turn.judgement.reward
        if expected is None or said == expected:
            continue
        told = [
            {"question": vote.question, "said": vote.score, "raw": vote.raw, "failure": vote.failure}
            for vote in cast.values()
        ]
        role = next((vote.role for vote in cast.values()), "")
        found.append(Disagreement(expected, said, role, "", "", (), told, turn=turn))
        if len(found) >= 2 * SHOWN:
            break
    return found


def source_of(family: str) -> str:
    """A family's file, word for word."""
    return (Path(prompts.__file__).with_name(f"{family}.toml")).read_text(encoding="utf-8")
