"""When learning may begin: never in a person's pause or on a disk without room, else in its hours, while no person
chats, within a day's minutes.

Hours, quiet and budget decide about beginnings only: a run that has begun ends, whatever the clock says meanwhile, and
one that lost its worker goes on. What a person asked for begins at once. A pause holds back all of it, and so does a
disk on which no more is free than what is kept for chat.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import dateformat, timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from chat import quiet
from chat.models import Turn
from checkpoints.models import Checkpoint
from core import stores
from core.errors import TalkbackError
from training.models import Pause, Run

DAY_MIN = 24 * 60

HERE = "\0"
"""Where a sentence has its time."""


class HoursInvalid(TalkbackError):
    """The settings that say when learning may run cannot be read."""

    code, status = "hours_invalid", 422


class Range(NamedTuple):
    """A part of every day, in minutes after midnight; one that ends before it starts goes on after midnight."""

    start: int
    end: int

    def holds(self, moment: datetime) -> bool:
        """Whether the clock, as `moment` reads it, stands in this range; its first minute does, its last does not.

        >>> night = Range(22 * 60, 7 * 60)
        >>> [night.holds(datetime(2026, 1, 1, hour)) for hour in (21, 22, 6, 7)]
        [False, True, True, False]
        """
        minute = moment.hour * 60 + moment.minute
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True)
class Rules:
    """What the settings say. Nothing at all: learning may begin at any time."""

    ranges: tuple[Range, ...] = ()
    idle_s: float = 0
    """The seconds without chat before learning begins; 0: chat does not matter."""
    budget_min: float = 0
    """Minutes of runs a day after which none begins; 0: no bound."""

    def open_at(self, moment: datetime) -> bool:
        return not self.ranges or any(one.holds(moment) for one in self.ranges)

    def opens(self, moment: datetime) -> datetime:
        """The first instant, at or after `moment` and in its time zone, at which its hours let learning begin."""
        if self.open_at(moment):
            return moment
        # Compared in UTC: within one time zone Python compares clocks, and those are put forward and back.
        starts = [
            start
            for one in self.ranges
            for day in range(3)
            for start in _starts(
                datetime.combine(moment.date() + timedelta(days=day), _clock(one.start), moment.tzinfo)
            )
        ]
        later = [start.astimezone(moment.tzinfo) for start in sorted(starts) if start > moment.astimezone(UTC)]
        return next(start for start in later if self.open_at(start))


@dataclass(frozen=True)
class Known:
    """What the rules look at."""

    at: datetime
    """Now, in the time zone of the rules."""
    chatted_at: datetime | None = None
    spent_min: float = 0
    pause: Pause | None = None
    short_mib: int = 0
    """By how much the disk falls short of the reserve."""


@dataclass(frozen=True)
class Wait:
    """Why learning does not begin."""

    why: str
    """The rest of a sentence that begins with "Training waits: "."""
    until: datetime | None
    """When it goes on if nothing else happens; None: when a person has done something."""

    def sentence(self, ready: int) -> str:
        """
        >>> Wait("it may run from 22:00", None).sentence(12)
        'Training waits: it may run from 22:00. 12 lessons are ready.'
        """
        said = ngettext(
            "Training waits: %(why)s. %(n)s lesson is ready.",
            "Training waits: %(why)s. %(n)s lessons are ready.",
            ready,
        )
        return said % {"why": self.why, "n": ready}


def parse(text: str) -> tuple[Range, ...]:
    """Parts of the day as a setting names them. Raises HoursInvalid.

    >>> parse("22:00-07:00, 12:30-13:15")
    (Range(start=1320, end=420), Range(start=750, end=795))
    """
    ranges = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})", part)
        if not found:
            raise HoursInvalid(
                _("LEARN_HOURS holds %(part)r: a range of hours looks like 22:00-07:00.") % {"part": part}
            )
        h1, m1, h2, m2 = map(int, found.groups())
        start, end = h1 * 60 + m1, h2 * 60 + m2
        if m1 > 59 or m2 > 59 or start >= DAY_MIN or end > DAY_MIN:
            raise HoursInvalid(_("LEARN_HOURS holds %(part)r: a day goes from 00:00 to 24:00.") % {"part": part})
        if start == end:
            said = _("LEARN_HOURS holds %(part)r, which is no time at all: leave it empty for any time.")
            raise HoursInvalid(said % {"part": part})
        ranges.append(Range(start, end))
    return tuple(ranges)


def rules() -> Rules:
    """What this installation's settings say. Raises HoursInvalid."""
    return Rules(
        parse(settings.LEARN_HOURS),
        _number(
            settings.LEARN_IDLE_S, gettext_noop("LEARN_IDLE_S is %(said)r: it takes a number of seconds, 0 for none.")
        ),
        _number(
            settings.LEARN_BUDGET_MIN,
            gettext_noop("LEARN_BUDGET_MIN is %(said)r: it takes a number of minutes, 0 for none."),
        ),
    )


def _number(said: Any, refusal: str) -> float:
    try:
        value = float(said or 0)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise HoursInvalid(_(refusal) % {"said": said})
    return value


def wait(rules: Rules, known: Known, *, exempt: bool = False) -> Wait | None:
    """Why nothing begins now; None when it may. `exempt` is what only a pause or the disk holds back."""
    if known.short_mib:
        short = _("the disk has %(mib)s MiB less free than what is kept for chat. Make room there")
        return Wait(short % {"mib": known.short_mib}, None)
    held: list[tuple[str, datetime]] = []  # why, with a place for the time that is told; and when that ends
    if known.pause is not None:
        said = _paused(known.pause)
        if known.pause.until is None:
            return Wait(_("%(paused)s until a person resumes it") % {"paused": said}, None)
        held.append((_("%(paused)s. It goes on at %(clock)s") % {"paused": said, "clock": HERE}, known.pause.until))
    if not exempt:
        if rules.budget_min and known.spent_min >= rules.budget_min:
            spent = _("the %(minutes)s minutes of today are used up. It goes on at %(clock)s")
            spent %= {"minutes": f"{rules.budget_min:g}", "clock": HERE}
            held.append((spent, _midnight(known.at + timedelta(days=1))))
        if not rules.open_at(known.at):
            held.append((_("it may run from %(clock)s") % {"clock": HERE}, rules.opens(known.at)))
        if rules.idle_s and known.chatted_at is not None:
            quiet_at = known.chatted_at.astimezone(UTC) + timedelta(seconds=rules.idle_s)
            if quiet_at > known.at.astimezone(UTC):
                chat = _("a person is chatting. It goes on after %(quiet)s of quiet, not before %(clock)s")
                held.append((chat % {"quiet": _span(rules.idle_s), "clock": HERE}, quiet_at))
    if not held:
        return None
    until = max(end.astimezone(UTC) for _why, end in held).astimezone(known.at.tzinfo)
    if not exempt:
        until = rules.opens(until)
    return Wait(held[0][0].replace(HERE, clock(until, known.at)), until)


def clock(moment: datetime, now: datetime) -> str:
    """An instant as a person reads it from `now`, in the time zone of `now`.

    >>> now = datetime(2026, 3, 2, 14, tzinfo=UTC)
    >>> clock(now + timedelta(hours=8), now), clock(now + timedelta(days=2), now)
    ('22:00', '14:00 on Wednesday 4 March')
    """
    local = moment.astimezone(now.tzinfo)
    if local - now < timedelta(days=1):
        return f"{local:%H:%M}"
    return _("%(time)s on %(day)s") % {"time": f"{local:%H:%M}", "day": dateformat.format(local, _("l j F"))}


def minutes_of_day(spans: Iterable[tuple[datetime, datetime]], now: datetime) -> float:
    """How many minutes of these spans, each (from, to), lie between the last midnight and `now`.

    >>> now = datetime(2026, 3, 2, 1, tzinfo=UTC)  # half an hour of the first, none of the second
    >>> minutes_of_day([(now - timedelta(hours=2), now - timedelta(minutes=30)), (now, now)], now)
    30.0
    """
    midnight, until = _midnight(now).astimezone(UTC), now.astimezone(UTC)
    parts = (min(to.astimezone(UTC), until) - max(start.astimezone(UTC), midnight) for start, to in spans)
    return sum(max(part, timedelta()).total_seconds() for part in parts) / 60


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time(), moment.tzinfo)


def _starts(clock: datetime) -> list[datetime]:
    """When a clock says so, in UTC: twice in a night in which it is put back. One that is put forward past it says so,
    and more, from that moment on."""
    first, second = (clock.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if first <= second:
        return [first, second]
    before, after = second, first  # the clock is put forward between these two
    while after - before > timedelta(seconds=1):
        between = before + (after - before) // 2
        is_before = between.astimezone(clock.tzinfo).utcoffset() == second.astimezone(clock.tzinfo).utcoffset()
        before, after = (between, after) if is_before else (before, between)
    return [after.replace(microsecond=0)]


def _clock(minute: int) -> time:
    return time(minute // 60, minute % 60)


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


def _paused(pause: Pause) -> str:
    said = _("paused by %(person)s") % {"person": pause.by.get_username()} if pause.by is not None else _("paused")
    reason = pause.reason.strip().rstrip(".")
    return f"{said} ({reason})" if reason else said


# What the rows say


def waiting(run: Run | None = None) -> Wait | None:
    """Why this run, or without one a batch that is ready, does not begin now; None when it may. Raises HoursInvalid."""
    said = rules()
    return wait(said, known(said), exempt=run is not None and is_exempt(run))


def is_exempt(run: Run) -> bool:
    """A person asked for it, or it has begun already and lost its worker, or that one was stopped: only a pause or the
    disk holds it back."""
    return run.started_at is not None or run.asked


def known(rules: Rules) -> Known:
    """Ask only what the rules look at."""
    now = timezone.localtime(timezone=timezone.get_default_timezone())
    return Known(
        now,
        chatted_at=quiet.last_chat() if rules.idle_s else None,
        spent_min=minutes_of_day(_worked(now), now) if rules.budget_min else 0,
        pause=current(now),
        short_mib=math.ceil(max(0, -stores.learning_room()) / stores.MIB),
    )


def _worked(now: datetime) -> Sequence[tuple[datetime, datetime]]:
    """From when to when each run of today was worked on, as far as its row knows: its last worker's time."""
    today = Q(heartbeat_at__gte=_midnight(now)) | Q(finished_at__gte=_midnight(now)) | Q(status=Run.Status.RUNNING)
    spans = []
    for run in Run.objects.filter(today).only("status", "started_at", "heartbeat_at", "finished_at"):
        # One that failed may have lost its worker long before it was seen: it was at work until it was last heard.
        end = run.finished_at if run.status == Run.Status.FINISHED else run.heartbeat_at
        if run.status == Run.Status.RUNNING:
            end = now
        if run.started_at and end:
            spans.append((run.started_at, end))
    return spans


# A person's pause


def current(now: datetime | None = None) -> Pause | None:
    """The pause that holds learning back now."""
    open_ended = Q(until=None) | Q(until__gt=now or timezone.now())
    return Pause.objects.filter(open_ended, ended_at=None).select_related("by").first()


@transaction.atomic
def pause(*, by: User | None = None, reason: str = "", until: datetime | None = None) -> Pause:
    """No run begins from now on; one that is running ends. A pause before this one ends with it.

    Raises HoursInvalid when `until` is over already.
    """
    if until is not None and until <= timezone.now():
        raise HoursInvalid(_("A pause ends in the future: give a later time, or none."))
    resume()
    return Pause.objects.create(by=by, reason=reason[:200], until=until)


def resume() -> int:
    """End every pause. Returns how many held learning back; what is due begins with the next sweep."""
    now = timezone.now()
    held = Pause.objects.filter(Q(until=None) | Q(until__gt=now), ended_at=None).count()
    Pause.objects.filter(ended_at=None).update(ended_at=now)
    return held


def is_idle() -> bool:
    """Say whether nothing that a person waits for is at work: no reply, no verdict, no run, no exam."""
    return not (
        Turn.objects.filter(status__in=(Turn.Status.ANSWERING, Turn.Status.OBSERVED)).exists()
        or Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).exists()
        or Checkpoint.objects.filter(status__in=(Checkpoint.Status.CANDIDATE, Checkpoint.Status.APPROVED)).exists()
    )
