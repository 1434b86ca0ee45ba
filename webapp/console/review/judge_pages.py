"""Show the judges: how well each does, at what cost, and by which rules and prompts."""

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

from django.contrib import messages
from django.db.models import Avg, Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext
from django.views.decorators.http import require_GET, require_POST

from chat.models import Turn
from judge import tasks
from judge.calibration import gold, gold_reports, scales, thresholds, verdict_figures, vote_floor
from judge.calibration import measuring as calibration
from judge.calibration.agreement import SCORES, Agreement, Reading, agreement, by_role, over_time
from judge.calibration.gold import Item
from judge.calibration.records import Record, Records
from judge.calibration.scales import Measure
from judge.calibration.thresholds import Point
from judge.calibration.vote_floor import OverrulingRefused, Standing
from judge.models import GoldReading, Measuring, Ruling, Vote
from judge.votes import judges, precedence, prompts, visible_rules
from judge.votes.judge import Judge
from judge.votes.naming import JudgesInvalid
from webapp.charts import accuracy
from webapp.console.doors import needs, person, said_aloud

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
    done: int = 0
    measure: Measure = scales.PLAIN
    sees: bool | None = None
    """Whether it is shown pictures; None: its server did not say."""

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


# Pages


@needs("review")
@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    records = Records()
    try:
        seats, trouble = seated(judges.roster(), records), ""
    except JudgesInvalid as error:
        seats, trouble = [], str(error)
    context = {
        "seats": seats,
        "trouble": trouble,
        "stopped": bool(seats) and all(one.standing.has_stopped for one in seats),
        "unknown": bool(seats) and not any(one.standing.weight for one in seats),
        "least": vote_floor.LEAST,
        "teaches": not trouble and judges.teaches(),
        "moving": any(one.measuring for one in seats),
        "former": former({(one.who.name, one.who.version) for one in seats}, records),
        "floor": vote_floor.rule(),
        "precedence": _(precedence.RULE),
        "rules": visible_rules.RULES,
        "families": [(name, prompts.version(name), source_of(name)) for name in prompts.families()],
        "items": len(gold.items()),
    }
    return render(request, "judging/judges.html", context)


@needs("review")
@require_GET
def one(request: HttpRequest) -> HttpResponse:
    """One judge with one version of its prompts, as closely as it was measured."""
    name, version = request.GET.get("name", ""), request.GET.get("version", "")
    record = Record.of(name, version)
    measured = measured_of(record)
    asked = [who for who in _panel() if who.name == name]
    versions = versions_of(name)
    if not versions and not asked:
        raise Http404(_("No judge called %(judge)s votes here, or ever did.") % {"judge": name})
    every = [calibration.reading_of(row) for row in record.rows]  # those that were made anew since too
    figures, known = gold_reports.figures(record, gold.items()), record.measure
    wrong = [*gold_disagreements(record), *thumb_disagreements(name, version)]
    context = {
        "name": name,
        "version": version,
        "who": next(iter(asked), None),
        "measured": measured,
        "standing": record.standing,
        "plot": drawn(every, measured.thumbs),
        "matrices": [
            (
                title,
                [
                    Matrix(gettext_noop("all"), agreement(found)),
                    *(Matrix(role, part) for role, part in by_role(found).items()),
                ],
            )
            for title, found in ((_("Gold follow-ups"), measured.gold), (_("People’s thumbs"), measured.thumbs))
            if found
        ],
        "hints": hint_figures(record),
        "figures": figures,
        "measure": known,
        "reliability": accuracy.reliability(known.scores),
        "coverage": accuracy.coverage(known.scores, known.least),
        "slices": [
            (label, one)
            for title in ("by_slice", "by_language")
            for label, one in figures[title].items()
            if label != "none named"
        ],
        "threshold_rule": thresholds.rule(),
        "least": vote_floor.LEAST,
        "cost": cost_of(votes_cost([(name, version)]), record),
        "versions": [measured_of(Record.of(name, other)) for other in versions if other != version],
        "wrong": wrong if request.GET.get("all") else wrong[:SHOWN],
        "more": 0 if request.GET.get("all") else max(0, len(wrong) - SHOWN),
        "rulings": record.rulings,
        "floor": vote_floor.rule(),
    }
    return render(request, "judging/judge.html", context)


@needs("policies")
@require_POST
def measure(request: HttpRequest) -> HttpResponse:
    """Have a judge read the gold follow-ups as soon as no person waits for anything."""

    def begin() -> Measuring:
        return calibration.begin(judges.called(request.POST.get("name", "")), by=person(request))

    if begun := said_aloud(request, begin):
        tasks.idly(tasks.measure, str(begun.pk))
        said = ngettext(
            "%(judge)s reads %(n)s gold follow-up, whenever no person waits for a reply or a verdict.",
            "%(judge)s reads %(n)s gold follow-ups, whenever no person waits for a reply or a verdict.",
            begun.total,
        )
        messages.success(request, said % {"judge": begun.judge, "n": begun.total}, extra_tags="good")
    return redirect("console:judges")


@needs("policies")
@require_POST
def stop(request: HttpRequest, pk: int) -> HttpResponse:
    measuring = get_object_or_404(Measuring, pk=pk)
    calibration.stop(measuring, by=person(request))
    said = _("Ended. What %(judge)s had read counts.") % {"judge": measuring.judge}
    messages.success(request, said, extra_tags="good")
    return redirect("console:judges")


@needs("policies")
@require_POST
def overrule(request: HttpRequest) -> HttpResponse:
    """An operator's word on what a judge counts; an empty weight gives it back to the rule."""
    name, version = request.POST.get("name", ""), request.POST.get("version", "")
    said = request.POST.get("weight", "").strip().replace(",", ".")

    def decide() -> Ruling:
        try:
            weight = float(said) if said else None
        except ValueError as error:
            told = _("%(said)s is no number: a weight is a number from 0 to 1.")
            raise OverrulingRefused(told % {"said": said}) from error
        return vote_floor.overrule(name, version, weight, by=person(request), reason=request.POST.get("reason", ""))

    if ruling := said_aloud(request, decide):
        weight = ruling.after["weight"]
        if weight is not None:
            done = _("%(judge)s counts %(weight)s from now on.") % {"judge": name, "weight": f"{weight:g}"}
        else:
            done = _("%(judge)s is back under the rule.") % {"judge": name}
        messages.success(request, done, extra_tags="good")
    return HttpResponseRedirect(f"{reverse('console:judge')}?{urlencode({'name': name, 'version': version})}")


@needs("policies")
@require_POST
def move_threshold(request: HttpRequest) -> HttpResponse:
    """An operator's word on how sure a judge must be; an empty threshold gives it back to the rule."""
    name, version = request.POST.get("name", ""), request.POST.get("version", "")
    said = request.POST.get("threshold", "").strip().replace(",", ".")

    def decide() -> Ruling:
        try:
            threshold = float(said) if said else None
        except ValueError as error:
            told = _("%(said)s is no number: a threshold is a number from 0.5 to 1.")
            raise OverrulingRefused(told % {"said": said}) from error
        return vote_floor.set_threshold(
            name, version, threshold, by=person(request), reason=request.POST.get("reason", "")
        )

    if ruling := said_aloud(request, decide):
        least = ruling.after["threshold"]
        if least is not None:
            done = _("%(judge)s decides from %(least)s on.") % {"judge": name, "least": f"{least:g}"}
        else:
            done = _("%(judge)s decides as the rule says.") % {"judge": name}
        messages.success(request, done, extra_tags="good")
    return HttpResponseRedirect(
        f"{reverse('console:judge')}?{urlencode({'name': name, 'version': version})}#sure-title"
    )


# What they show


def _panel() -> Sequence[Judge]:
    try:
        return judges.roster()
    except JudgesInvalid:
        return ()


def seated(roster: Sequence[Judge], records: Records) -> list[Seat]:
    """Each judge of the roster as the page lists it."""
    sums = votes_cost([(who.name, who.version) for who in roster])
    asked = list(Measuring.objects.filter(judge__in=[who.name for who in roster]))
    seats = []
    for who, sees in zip(roster, judges.sights(roster), strict=True):
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
                calibration.read_so_far(measuring) if measuring else 0,
                record.measure,
                sees,
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


urls = [
    path("judges/", overview, name="judges"),
    path("judges/one/", one, name="judge"),
    path("judges/measure/", measure, name="measure"),
    path("judges/measure/<row:pk>/stop/", stop, name="measure_stop"),
    path("judges/overrule/", overrule, name="overrule_judge"),
    path("judges/threshold/", move_threshold, name="judge_threshold"),
]
