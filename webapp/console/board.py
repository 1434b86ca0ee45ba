"""Show the whole loop on one page: what moves, what waits, and why. Reading rows and thinking are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db.models import Case, Count, IntegerField, Min, Q, QuerySet, Value, When
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext, pgettext

from chat.models import Session, Turn
from checkpoints import approvals, promotion
from checkpoints.models import SHARED, Checkpoint, Decision
from core import stores
from core.counting import count_rows
from core.states import Stateful
from gate import agent_part
from gate.models import Examination
from judge.votes import judges, polling
from judge.votes.naming import JudgesInvalid
from training import batches, hours, line_recipes
from training.agents import groups
from training.batches import Filling
from training.config import Recipe
from training.hours import HoursInvalid, Wait
from training.models import Pause, Run, Sample
from webapp import heartbeats
from webapp.journey import journeys

STATES: dict[str, type[Stateful]] = {"turns": Turn, "samples": Sample, "runs": Run, "checkpoints": Checkpoint}
ACTIVE = Case(
    When(status=Run.Status.RUNNING, then=0),
    When(status=Run.Status.QUEUED, then=1),
    default=2,
    output_field=IntegerField(),
)
"""The run that is at work stands before those that are queued, and these before those that are over."""
WAITS_ITS_TURN = When(status__in=(Run.Status.QUEUED, Run.Status.RUNNING), then="pk")
PHASES = (
    *(gettext_noop("starting"), gettext_noop("loading"), gettext_noop("learning"), gettext_noop("teacher")),
    *(gettext_noop("learning, after chat"), gettext_noop("teacher, after chat"), gettext_noop("saving")),
    gettext_noop("finished"),
)
"""What a run's row says that it is at, in English."""
SILENT_S = 60
"""A run that has not been heard for this long has lost its learner."""


@dataclass(frozen=True)
class Station:
    """One stop of the loop and how it stands there."""

    key: str
    title: str
    figure: str
    mood: str
    """idle | working | waiting (for something of its own accord) | you (for a person) | stuck (for a repair)"""
    sentence: str
    since: datetime | None = None
    done: int = 0
    total: int = 0

    @property
    def percent(self) -> int:
        return round(100 * self.done / self.total) if self.total else 0


@dataclass(frozen=True)
class Facts:
    """What the rows and the workers' heartbeats say at one moment."""

    now: datetime
    counts: Mapping[str, Mapping[str, int]]
    """turns, samples, runs and checkpoints: how many in each state, zeros included."""
    oldest: Mapping[str, Mapping[str, datetime]]
    """When the longest-waiting row of each state entered it."""
    batch: Filling
    """The next one."""
    live: Checkpoint
    set_aside: int = 0
    """Samples whose run failed or that one passed over: only a person's "learn now" takes them up again."""
    previous: Checkpoint | None = None
    run: Run | None = None
    """The run that is queued or running, else the last one."""
    candidate: Checkpoint | None = None
    """The candidate under examination, or next to be."""
    examination: Examination | None = None
    passed: Checkpoint | None = None
    """The oldest that waits for a person, and is not on hold."""
    endorsed_by: str = ""
    """Who said the first yes to it, where two people must."""
    on_hold: int = 0
    """How many passed and are on hold."""
    approved: Checkpoint | None = None
    silences: Mapping[str, float | None] | None = field(default_factory=lambda: {"judge": 0.0, "learn": 0.0})
    """Seconds since each queue's worker was heard; None: Redis is away."""
    stopped: bool = False
    """Votes would teach, and every judge has stopped (judge.calibration.vote_floor)."""
    unknown: bool = False
    """Votes would teach, and no judge was measured."""
    wait: Wait | None = None
    """Why what is due does not begin now: the queued run, or else the next batch."""
    pause: Pause | None = None
    """A person's, that holds learning back."""
    short_mib: int = 0
    """By how much the disk falls short of what learning leaves free."""
    also: Mapping[str, int] = field(default_factory=dict)
    """What else was counted, by its name."""

    @property
    def held(self) -> str:
        """Why learning waits for the clock or for a person and not for samples, as a sentence; empty where it does not.

        Without a pause only what could begin waits.
        """
        queued = self.counts["runs"]["queued"]
        if self.wait is None or self.counts["runs"]["running"]:
            return ""
        if not queued and not self.pause and self.batch.wanting:
            return ""
        return self.wait.sentence(self.counts["samples"]["claimed"] if queued else self.batch.ready)

    @property
    def claimable(self) -> int:
        """What a run started now would learn from."""
        return max(self.batch.taken, min(self.batch.ready + self.set_aside, self.batch.size))

    @property
    def busy(self) -> bool:
        """A run is queued or running."""
        return bool(self.counts["runs"]["queued"] or self.counts["runs"]["running"])


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
        parts.append(of.annotate(n=Count("*"), first=Min("moved_at")).values_list("of", "status", "n", "first"))
    for name, status, number, first in parts[0].union(*parts[1:], all=True):
        counts[name][status], oldest[name][status] = number, first
    return counts, oldest


def waiting(run: Run | None) -> Wait | None:
    """Why the queued run, or without one the next batch, does not begin now."""
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


def stations(facts: Facts) -> list[Station]:
    """Each stop of the loop, in the order a lesson passes them."""
    return [_talk(facts), _judge(facts), _batch(facts), _learn(facts), _examine(facts), _approve(facts), _live(facts)]


def missing(facts: Facts, queue: str) -> str:
    """Why no worker takes work from this queue, as a sentence; empty when one does.

    >>> missing(facts, "judge")  # doctest: +SKIP
    'Waiting for a judge worker: none has answered for 40 s.'
    """
    if facts.silences is None:
        return _("Waiting for Redis, which does not answer: what is due is sent again once it is back.")
    silence = facts.silences.get(queue)
    if silence is None and queue == "judge":
        return _("Waiting for a judge worker: none has answered yet.")
    if silence is None:
        return _("Waiting for a learn worker: none has answered yet.")
    if silence <= heartbeats.LOST_S:
        return ""
    told = {"span": span(silence)}
    if queue == "judge":
        return _("Waiting for a judge worker: none has answered for %(span)s.") % told
    return _("Waiting for a learn worker: none has answered for %(span)s.") % told


def span(seconds: float) -> str:
    """A length of time, as short as can be said.

    >>> span(40), span(200), span(7300), span(200000)
    ('40 s', '3 min', '2 h', '2 days')
    """
    if seconds < 90:
        return _("%(n)s s") % {"n": round(max(0, seconds))}
    if seconds < 90 * 60:
        return _("%(n)s min") % {"n": round(seconds / 60)}
    if seconds < 36 * 3600:
        return _("%(n)s h") % {"n": round(seconds / 3600)}
    days = round(seconds / 86400)
    return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "sample"), counted(13, "sample"), counted(2, "reply")
    ('1 sample', '13 samples', '2 replies')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _talk(facts: Facts) -> Station:
    turns, title = facts.counts["turns"], pgettext("stop", "Talk")
    every = sum(turns.values())
    figure = ngettext("%(n)s turn", "%(n)s turns", every) % {"n": every}
    if n := turns["answering"]:
        said = ngettext("%(n)s reply being written.", "%(n)s replies being written.", n) % {"n": n}
        return Station("talk", title, figure, "working", said, facts.oldest["turns"].get("answering"))
    if n := turns["served"]:
        said = ngettext(
            "%(n)s reply waiting for what comes back: a next message, a thumb, a correction.",
            "%(n)s replies waiting for what comes back: a next message, a thumb, a correction.",
            n,
        ) % {"n": n}
        return Station("talk", title, figure, "idle", said, facts.oldest["turns"].get("served"))
    said = _("Every reply was answered.") if every else _("No conversation yet.")
    return Station("talk", title, figure, "idle", said)


def _judge(facts: Facts) -> Station:
    turns, title = facts.counts["turns"], pgettext("stop", "Judge")
    due, since = turns["observed"], facts.oldest["turns"].get("observed")
    if not due:
        n = turns["judged"]
        figure = _("%(n)s judged") % {"n": n}
        if facts.stopped:
            said = _(
                "Every judge has stopped: votes teach nothing. Measure one anew or overrule the floor, under Judges."
            )
            return Station("judge", title, figure, "you", said)
        if facts.unknown:
            said = _("No judge was measured: votes are shown, and count for nothing. Measure now, under Judges.")
            return Station("judge", title, figure, "you", said)
        judged = ngettext("%(n)s turn judged.", "%(n)s turns judged.", n) % {"n": n}
        return Station("judge", title, figure, "idle", judged if n else _("Nothing to judge yet."))
    figure = _("%(n)s due") % {"n": due}
    if absent := missing(facts, "judge"):
        return Station("judge", title, figure, "stuck", absent, since)
    said = ngettext("Judging %(n)s turn.", "Judging %(n)s turns.", due) % {"n": due}
    return Station("judge", title, figure, "working", said, since)


def _batch(facts: Facts) -> Station:
    batch = facts.batch
    ready, needed, is_full = batch.ready, batch.size, not batch.wanting
    figure = _("%(part)s of %(whole)s") % {"part": ready, "whole": needed}
    if ready > needed:
        figure = _("%(n)s ready") % {"n": ready}
    title = pgettext("stop", "Batch")
    since = facts.oldest["samples"].get("ready")
    if is_full and facts.busy:
        busy = _("Waiting for the learner, which is busy with %(run)s.") % {"run": name_of(facts.run)}
        said = f"{batch.lessons} {busy}"
    elif is_full and facts.held:
        return Station("batch", title, figure, "waiting", facts.held, since, needed, needed)
    elif is_full:
        absent = missing(facts, "learn")
        said = f"{batch.lessons} {absent or _('The next run takes them.')}"
        return Station("batch", title, figure, "stuck" if absent else "working", said, since, needed, needed)
    else:
        said = batch.full_sentence
    return Station("batch", title, figure, "waiting", said, since, min(ready, needed), needed)


def filled(batch: Filling) -> dict[str, int]:
    """The next batch, as scripts read it."""
    return {"ready": batch.ready, "needed": batch.size, "wanting": batch.wanting, "corrections": batch.unwritten}


def _learn(facts: Facts) -> Station:
    run, title = facts.run, pgettext("stop", "Learn")
    if facts.held:
        since = facts.pause.since if facts.pause else run.moved_at if run and run.status == Run.Status.QUEUED else None
        figure = pgettext("learning", "paused") if facts.pause else pgettext("learning", "waits")
        if run and run.status == Run.Status.QUEUED:
            figure = name_of(run)
        return Station("learn", title, figure, "waiting", facts.held, since)
    if run is None:
        said = _("Training starts by itself once there are enough lessons.")
        return Station("learn", title, _("no run"), "idle", said)
    if run.status == Run.Status.QUEUED:
        absent = missing(facts, "learn")
        said = absent or _("Waiting for the learner to take it up.")
        return Station("learn", title, name_of(run), "stuck" if absent else "waiting", said, run.moved_at)
    if run.status == Run.Status.RUNNING:
        return _running(facts, run, title)
    if run.status == Run.Status.FAILED:
        figure = _("run %(number)s failed") % {"number": run.pk}
        return Station("learn", title, figure, "idle", run.error or _("It failed."), run.finished_at)
    figure = _("run %(number)s done") % {"number": run.pk}
    return Station("learn", title, figure, "idle", _("No run at work."), run.finished_at)


def _running(facts: Facts, run: Run, title: str) -> Station:
    silence = (facts.now - (run.heartbeat_at or run.moved_at)).total_seconds()
    if silence > SILENT_S:
        said = _("Its learner has been silent for %(span)s; the run is taken up again or its samples go back.") % {
            "span": span(silence)
        }
        return Station("learn", title, name_of(run), "stuck", said, run.started_at)
    done = round(100 * run.progress.get("share", 0))
    phase = _(str(run.progress.get("phase", "starting"))).capitalize()
    said = f"{phase}."
    if left := run.progress.get("eta_s"):
        said = _("%(phase)s, about %(span)s to go.") % {"phase": phase, "span": span(left)}
    return Station("learn", title, name_of(run), "working", said, run.started_at, done, 100)


def name_of(run: Run | None) -> str:
    """A run as a sentence names it."""
    return _("run %(number)s") % {"number": run.pk} if run else ""


def _examine(facts: Facts) -> Station:
    candidate, examination, title = facts.candidate, facts.examination, pgettext("stop", "Examine")
    if candidate is None:
        said = _("The gate examines each candidate by itself.")
        return Station("examine", title, _("no candidate"), "idle", said)
    since = candidate.moved_at
    if absent := missing(facts, "judge"):
        return Station("examine", title, candidate.name, "stuck", absent, since)
    if examination is None:
        said = _("Waiting for a judge worker to be free.")
        return Station("examine", title, candidate.name, "waiting", said, since)
    against = {"against": examination.against}
    if examination.progress.get("phase") == "agents":
        ended, wanted = agent_part.count_played(agent_part.of(examination))
        told = {**against, "part": ended, "whole": wanted}
        said = _("Agents play against %(against)s: %(part)s of %(whole)s attempts.") % told
        return Station("examine", title, candidate.name, "working", said, examination.started_at, ended, wanted)
    done, total = examination.progress.get("done", 0), examination.progress.get("total", 0)
    said = _("Against %(against)s.") % against
    if total:
        said = _("Against %(against)s: %(part)s of %(whole)s questions.") % {**against, "part": done, "whole": total}
    return Station("examine", title, candidate.name, "working", said, examination.started_at, done, total)


def _approve(facts: Facts) -> Station:
    title = pgettext("stop", "Approve")
    if facts.approved:
        said = _("Approved: it goes live once the engine has answered its probe.") + of_line(facts.approved)
        return Station("approve", title, facts.approved.name, "working", said, facts.approved.moved_at)
    if facts.passed:
        waiting = facts.counts["checkpoints"]["passed"] - facts.on_hold
        said = _("It passed the gate and waits for a person.")
        if facts.endorsed_by:
            said = _("It passed the gate and waits for a second yes, after %(who)s’s.") % {"who": facts.endorsed_by}
        said += of_line(facts.passed)
        if (more := waiting - 1) > 0:
            said += " " + ngettext("%(n)s more after it.", "%(n)s more after it.", more) % {"n": more}
        return Station("approve", title, facts.passed.name, "you", said, facts.passed.moved_at)
    if facts.on_hold:
        said = _("Put on hold by a person until it is released.")
        return Station("approve", title, _("%(n)s on hold") % {"n": facts.on_hold}, "idle", said)
    return Station("approve", title, _("nothing"), "idle", _("Nothing is waiting for you."))


def _live(facts: Facts) -> Station:
    said = _("It writes every new reply, but for those of teams with a line of their own.")
    return Station("live", pgettext("stop", "Live"), facts.live.name, "idle", said, facts.live.moved_at)


def of_line(checkpoint: Checkpoint) -> str:
    """Whose it is, where it is not everybody's, as a sentence to go on with."""
    if checkpoint.line_id == SHARED:
        return ""
    return " " + _("It is of the line “%(line)s”.") % {"line": checkpoint.line}


def off_record(status: str = "") -> int:
    """How many turns of one state, or of all, are off the record: they are counted, and not listed."""
    rows = _of(status)
    chats = Session.objects.filter(learns=False).values("pk")
    return sum(count_rows(turns=rows.filter(learns=False), chats=rows.filter(learns=True, session__in=chats)).values())


def _of(status: str) -> QuerySet[Turn]:
    """Turns of one state, or all. A state that most are in is not asked of the index of states: it finds them all."""
    if status in OFTEN:
        return Turn.objects.annotate(state=Lower("status")).filter(state=status)
    return Turn.objects.filter(status=status) if status in Turn.Status.values else Turn.objects.all()


def turns(status: str = "", limit: int = 12) -> list[Turn]:
    """The newest turns on the record, of one state or of all, each with its `journey`."""
    off = Session.objects.filter(learns=False).values("pk")
    # Found without a join: with one a database sorts all turns there are.
    found = _of(status).filter(learns=True).exclude(session__in=off).order_by("-created_at").values("pk")[:limit]
    rows = Turn.objects.filter(pk__in=found).select_related("session", "checkpoint", "judgement")
    newest = list(rows.order_by("-created_at").defer(*LONG))
    stands = journeys(newest)
    for turn in newest:
        turn.journey = stands[turn.pk]  # type: ignore[attr-defined]
    return newest


OFTEN = (Turn.Status.SERVED, Turn.Status.JUDGED, Turn.Status.CLOSED)
"""States that many turns are in."""

LONG = ("prompt_ids", "logprobs", "judgement__teacher", "judgement__evidence")
"""Columns that the list does not show and that may be long."""


def batch(recipe: Recipe, filling: Filling, every: Sequence[groups.Waiting]) -> list[Sample | None]:
    """The samples that a run would claim, of an attempt its first step, and None for each lesson that is still wanted:
    the cells of the meter. The batch, and the groups of attempts that wait, as `batches.filled_with` has them."""
    rows = batches.in_turn(batches.waiting(recipe), filling)
    replies = list(rows.select_related("judgement")[: recipe.batch_size])
    untried = [one for one in every if not one.is_tried]
    chosen = groups.first(untried, recipe.batch_size - len(replies))
    played: dict[object, Sample] = {}
    counting = groups.untried(recipe, SHARED).filter(groups.COUNTS, episode__group__in=[one.group for one in chosen])
    for step in counting.select_related("judgement").order_by("step") if chosen else ():
        played.setdefault(step.episode_id, step)
    ready = [*replies, *sorted(played.values(), key=lambda one: one.pk)]
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


def age_s(moment: datetime | None, now: datetime | None = None) -> float | None:
    return None if moment is None else max(0.0, ((now or timezone.now()) - moment) / timedelta(seconds=1))
