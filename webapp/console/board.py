"""Read the whole loop for one page: what moves, what waits, and why. What its stops say is in loop/stations.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import redis
from django.conf import settings
from django.db.models import Case, Count, DateTimeField, IntegerField, Min, Q, QuerySet, Value, When
from django.utils import timezone

from chat.models import Turn
from checkpoints import approvals, promotion
from checkpoints.models import SHARED, Checkpoint, Decision
from core import stores
from core.states import Stateful
from episodes.models import counts
from judge.votes import judges, polling
from judge.votes.naming import JudgesInvalid
from training import batches, hours, learnable, line_recipes
from training.batches import Filling
from training.config import Recipe
from training.hours import HoursInvalid, Wait
from training.models import Run, Sample
from webapp import health, heartbeats
from webapp.amounts import span
from webapp.console.loop.facts import Facts
from webapp.console.loop.stations import Station, stations

STATES: dict[str, type[Stateful]] = {"turns": Turn, "samples": Sample, "runs": Run, "checkpoints": Checkpoint}
ACTIVE = Case(
    When(status=Run.Status.RUNNING, then=0),
    When(status=Run.Status.QUEUED, then=1),
    default=2,
    output_field=IntegerField(),
)
"""The run that is at work stands before those that are queued, and these before those that are over."""
WAITS_ITS_TURN = When(status__in=(Run.Status.QUEUED, Run.Status.RUNNING), then="pk")

UNASKED = Value(None, output_field=DateTimeField())
"""When the first of the others entered its state: no page says it, and no index holds it beside what they are."""


@dataclass(frozen=True)
class Board:
    facts: Facts
    stations: list[Station]

    @property
    def stuck(self) -> list[Station]:
        """What wants a repair, stops with one cause told together."""
        found: dict[str, Station] = {}
        for station in self.stations:
            if station.mood == "stuck":
                same = found.get(station.sentence)
                title = f"{same.title}, {station.title}" if same else station.title
                found[station.sentence] = replace(same or station, title=title)
        return list(found.values())

    def as_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            **{name: dict(states) for name, states in facts.counts.items()},
            "live": facts.live.number,
            "batch": filled(facts.batch),
            "waiting": {s.key: s.sentence for s in self.stations if s.mood in ("waiting", "you", "stuck")},
        }


def read(**also: QuerySet[Any, Any]) -> Board:
    """The board; what else is counted beside it, by its name, is in `facts.also`."""
    facts = gather(**also)
    return Board(facts, stations(facts))


def gather(**also: QuerySet[Any, Any]) -> Facts:
    """Ask the rows and the heartbeats."""
    counts, oldest = count_states(**also)
    try:
        silences = heartbeats.silences()
    except redis.RedisError:
        silences = None
    status = Checkpoint.Status
    shown = Q(status__in=(status.CANDIDATE, status.PASSED, status.APPROVED)) | Q(status=status.LIVE, line=SHARED)
    rows = Checkpoint.objects.with_taints().select_related("line", "parent", "examination").defer(*OF_EXAM)
    checkpoints, previous = promotion.beside_previous(rows.order_by("number"), shown)
    live = next(one for one in checkpoints if one.status == status.LIVE and one.line_id == SHARED)
    candidate = next((one for one in checkpoints if one.status == status.CANDIDATE), None)
    passed = [one for one in checkpoints if one.status == status.PASSED and not one.is_on_hold]
    first = passed[0] if passed else None
    run = Run.objects.annotate(is_active=ACTIVE).order_by("is_active", Case(WAITS_ITS_TURN).asc(), "-pk").first()
    active = run if run and run.status in (Run.Status.QUEUED, Run.Status.RUNNING) else None
    recipe = line_recipes.recipe_of_row(live.line)
    endorsement = approvals.standing(first).endorsement if first else None
    batch = batches.filling(recipe)
    wait = waiting(active)
    has_ended = counts["runs"]["finished"] or counts["runs"]["failed"]
    return Facts(
        now=timezone.now(),
        counts=counts,
        oldest=oldest,
        batch=batch,
        set_aside=batch.set_aside if has_ended else 0,
        live=live,
        previous=previous,
        run=run,
        candidate=candidate,
        examination=getattr(candidate, "examination", None),
        passed=first,
        endorsed_by=str(endorsement.by) if endorsement else "",
        on_hold=sum(one.status == status.PASSED and one.is_on_hold for one in checkpoints),
        approved=next((one for one in checkpoints if one.status == status.APPROVED), None),
        silences=silences,
        is_engine_away=health.is_engine_away(),
        stopped=have_stopped(),
        unknown=are_unknown(),
        wait=wait,
        pause=hours.current() if wait else None,
        short_mib=math.ceil(max(0, -stores.learning_room()) / stores.MIB),
        also={name: sum(counts[name].values()) for name in also},
    )


OF_EXAM = tuple(f"examination__{name}" for name in ("pairs", "checks", "pack", "personal", "meter"))
"""Of an exam what the board does not show, and that may be long."""


def count_states(
    **also: QuerySet[Any, Any],
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, datetime]]]:
    """How many rows are in each state, and when the longest-waiting entered it, by the names of STATES; and how many of
    these others there are. One query."""
    counts = {name: dict.fromkeys(model.Status.values, 0) for name, model in STATES.items()}  # type: ignore[attr-defined]
    oldest: dict[str, dict[str, datetime]] = {name: {} for name in STATES}
    parts = []
    counts |= {name: {} for name in also}
    oldest |= {name: {} for name in also}
    for name, rows in ({name: model._base_manager.all() for name, model in STATES.items()} | also).items():
        of = rows.order_by().annotate(of=Value(name)).values("of", "status")
        first = UNASKED if name in also else Min("moved_at")
        parts.append(of.annotate(n=Count("*"), first=first).values_list("of", "status", "n", "first"))
    for name, status, number, first in parts[0].union(*parts[1:], all=True):
        counts[name][status], oldest[name][status] = number, first
    return counts, oldest


def waiting(run: Run | None) -> Wait | None:
    """Why the queued run, or without one the next batch, does not begin now."""
    if reason := learnable.why_not():
        return Wait(reason.rstrip("."), None)
    try:
        return hours.waiting(run)
    except HoursInvalid as error:
        return Wait(str(error).rstrip("."), None)


def have_stopped() -> bool:
    """True when votes would teach here and every judge has stopped."""
    try:
        return judges.teaches() and polling.have_stopped(judges.panel())
    except JudgesInvalid:
        return False  # the judges' page says what is wrong with them


def are_unknown() -> bool:
    """True when votes would teach here and no judge counts, since none was measured."""
    try:
        return judges.teaches() and polling.are_unknown(judges.panel())
    except JudgesInvalid:
        return False


def filled(batch: Filling) -> dict[str, int]:
    """The next batch, as scripts read it."""
    return {"ready": batch.ready, "needed": batch.size, "wanting": batch.wanting, "corrections": batch.unwritten}


def batch(recipe: Recipe, samples: Sequence[Sample]) -> list[Sample | None]:
    """The cells of the meter: the samples that the next run would claim, of an attempt its first step, and None for
    each lesson that is still wanted."""
    played: dict[object, Sample] = {}
    for step in sorted((one for one in samples if one.step is not None), key=lambda one: one.step or 0):
        if step.episode is not None and counts(step.episode.ending, step.episode.cut_by):
            played.setdefault(step.episode_id, step)
    ready = [*(one for one in samples if one.step is None), *sorted(played.values(), key=lambda one: one.pk)]
    return [*ready, *[None] * (recipe.batch_size - len(ready))]


def decisions(limit: int = 6) -> list[Decision]:
    return list(Decision.objects.select_related("checkpoint", "by")[:limit])


def text(board: Board) -> str:
    """The board for a terminal."""
    lines = [f"{settings.MODEL_NAME}: {board.facts.live} answers", ""]
    for station in board.stations:
        age = f"  [{span((board.facts.now - station.since).total_seconds())}]" if station.since else ""
        lines.append(f"{station.title:<8} {station.figure:<16} {station.mood:<8} {station.sentence}{age}")
    lines.append("")
    for name, states in board.facts.counts.items():
        lines.append(f"{name:<12} " + "  ".join(f"{state} {count}" for state, count in states.items()))
    return "\n".join(lines)
