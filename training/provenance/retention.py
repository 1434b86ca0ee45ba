"""Which weights are kept on this disk, by rule, and how long the disk lasts. Rows are kept whatever becomes of files.

What is let go of is gone from the disk for good; the row stays, with all that it was made of. The row says so first,
and the files go after: a process that dies in between leaves a folder that no row names, which the next sweep clears.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from checkpoints import loading, notices, promotion
from checkpoints.cleaning_rows import Cleaning
from checkpoints.models import Checkpoint, Decision, Line, Trial
from checkpoints.notice_rows import Notice
from core import stores
from core.errors import IllegalMove, TalkbackError
from training.models import Run
from training.next_run import forecast
from training.running.orphans import clear_orphans

log = logging.getLogger(__name__)

REJECTED_DAYS = 7
"""How long rejected weights are kept at most: an operator may want to look at what failed."""

MEASURED_DAYS = 14
"""Over how long the pace of new weights is measured."""

WARN_DAYS = 7
"""A disk that is full sooner than this is told of."""

WARN_RUNS = 3
"""So is one that has no room for this many runs."""


class ReasonMissing(TalkbackError):
    """A pin says why."""

    code, status = "reason_missing", 422


class Unremovable(TalkbackError):
    """Files of weights that were let go of cannot be removed; the next sweep tries again."""

    code, status, retryable = "unremovable", 500, True


SAYS = {
    "short": gettext_noop("The disk is filling up."),
    "used": gettext_noop("Checkpoints take %(used)s; %(free)s of %(total)s are free."),
    "first": gettext_noop("How fast that grows shows with the first run."),
    "idle": gettext_noop("A run adds about %(growth)s; none was made in the last %(days)s days."),
    "years": gettext_noop(
        "A run adds about %(growth)s, and %(pace)s a day are made: if nothing was let go of, the disk would be full in "
        "years."
    ),
    "days": gettext_noop(
        "A run adds about %(growth)s, and %(pace)s a day are made: if nothing was let go of, the disk would be full in "
        "%(days)s days."
    ),
    "see": gettext_noop("See Storage."),
}
"""What is said of the disk; its notice keeps it in English (webapp.serving.retold)."""


@dataclass(frozen=True)
class Stored:
    """A checkpoint that has files here, or had, and why it keeps them."""

    checkpoint: Checkpoint
    reasons: list[str]
    """In words; empty: nothing holds it, and it goes next."""
    bytes: int

    @property
    def goes(self) -> bool:
        return not self.reasons


@dataclass(frozen=True)
class Disk:
    """What checkpoints take, and how long the disk lasts at the present pace. None: nothing is known yet."""

    used: int
    """Bytes of all checkpoints' folders."""
    free: int
    total: int
    growth: int | None
    """Bytes that a run adds: the mean of the newest."""
    runs_a_day: float
    """Checkpoints made a day, lately."""
    goes: int
    """Bytes that retention would free now."""

    @property
    def days_left(self) -> float | None:
        """Until it is full, if nothing was let go of."""
        a_day = (self.growth or 0) * self.runs_a_day
        return self.free / a_day if a_day else None

    @property
    def is_short(self) -> bool:
        few_days = self.days_left is not None and self.days_left < WARN_DAYS
        return few_days or (self.growth is not None and self.free < WARN_RUNS * self.growth)

    @property
    def sentence(self) -> str:
        """All of it, in words."""
        parts = [_(SAYS["used"]) % {"used": size(self.used), "free": size(self.free), "total": size(self.total)}]
        if self.growth is None:
            parts.append(_(SAYS["first"]))
        elif self.days_left is None:
            parts.append(_(SAYS["idle"]) % {"growth": size(self.growth), "days": MEASURED_DAYS})
        else:
            said = _(SAYS["days" if self.days_left < 1000 else "years"])
            parts.append(
                said % {"growth": size(self.growth), "pace": f"{self.runs_a_day:.1f}", "days": f"{self.days_left:.0f}"}
            )
        return " ".join(parts)


def size(number: float) -> str:
    """Bytes for people.

    >>> size(0), size(1536), size(5 * 2**20), size(3.5 * 2**30)
    ('0 B', '1.5 KiB', '5.0 MiB', '3.5 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def plan(now: datetime | None = None) -> list[Stored]:
    """Every checkpoint that has weights of its own on this disk, the newest first, with what holds each."""
    now = now or timezone.now()
    kept = Checkpoint.objects.filter(let_go_at=None).exclude(path="").select_related("line").order_by("-number")
    rows = list(kept.annotate(**{name: held for name, held, _why in _kept_by()}))
    said: dict[int, list[str]] = {row.pk: [] for row in rows}
    for pks, why in _holds(rows):
        for pk in pks:
            if pk in said:
                said[pk].append(why)
    for row in rows:
        said[row.pk] += _by_age(row, now)
    of_line: dict[str | None, int] = {}
    for row in rows:  # the newest first, and those that were rejected count for nothing
        place = of_line.get(row.line_id, 0)
        if row.status == Checkpoint.Status.RETIRED:
            of_line[row.line_id] = place + 1
            if place < settings.RETAIN_LAST:
                said[row.pk].append(_("among the last %(n)s") % {"n": settings.RETAIN_LAST})
    return [Stored(row, said[row.pk], taken(row)) for row in rows]


def _by_age(row: Checkpoint, now: datetime) -> list[str]:
    if row.status == Checkpoint.Status.LIVE:
        return [_("live")]
    if row.status in (Checkpoint.Status.CANDIDATE, Checkpoint.Status.PASSED, Checkpoint.Status.APPROVED):
        return [_("%(status)s: it waits for a decision") % {"status": _(row.status)}]
    days = settings.RETAIN_DAYS
    if row.status == Checkpoint.Status.REJECTED:
        days = min(days, REJECTED_DAYS)
    if row.moved_at <= now - timedelta(days=days):
        return []
    return [_("%(status)s less than %(days)s days ago") % {"status": _(row.status), "days": days}]


def _kept_by() -> list[tuple[str, Q, str]]:
    """What keeps a checkpoint whatever its age, as far as rows alone say: a name, whether it does, why."""
    trials = Trial.objects.filter(ended_at=None).order_by()
    at_work = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).order_by()
    cleanings = Cleaning.objects.filter(status__in=(Cleaning.Status.QUEUED, Cleaning.Status.RUNNING)).order_by()
    checkpoints = Checkpoint.objects.order_by()
    asked = checkpoints.filter(Q(compared_first__status="queued") | Q(compared_second__status="queued"))
    steps = checkpoints.filter(run__cleaning__in=cleanings.values("pk"))
    needed = [Q(pk__in=cleanings.values(name)) for name in ("ancestor", "replaces", "result")]
    return [
        ("is_warm", _among(loading.wanted()), _("warm: the engine has it loaded")),
        ("begins", _among(Line.objects.order_by().values("start")), _("a line began with it")),
        ("is_tried", _among(trials.values("checkpoint")) | _among(trials.values("against")), _("on trial")),
        ("is_parent", _among(at_work.values("parent")), _("a run goes on from it")),
        ("answers", _among(checkpoints.filter(turns__status="answering")), _("a reply is being written with it")),
        ("is_compared", _among(asked), _("it is being compared with another")),
        ("has_keys", _among(checkpoints.exclude(pinned_keys=None)), _("a key asks for it")),
        ("has_chats", _among(checkpoints.exclude(pinned_chats=None)), _("a chat asks for it")),
        ("is_cleaned", reduce(or_, needed, _among(steps)), _("a cleaning needs it")),
    ]


def _among(rows: QuerySet[Any, Any]) -> Q:
    return Q(pk__in=rows.values("pk") if rows.model is Checkpoint else rows)


def _holds(rows: list[Checkpoint]) -> Iterable[tuple[Iterable[int], str]]:
    """Keys of checkpoints, and why they are kept whatever their age."""
    status = Checkpoint.Status
    yield [row.pk for row in rows if row.pinned], _("pinned")
    back = promotion.previous_of_all(Line.objects.filter(retired_at=None).select_related("start"))
    yield [one.pk for one in back.values()], _("what a roll back goes to")
    for name, _held, why in _kept_by():
        yield [row.pk for row in rows if getattr(row, name)], why
    lineage = Checkpoint.objects.order_by().values_list("pk", "parent", "taints__pk")
    parents = {pk: parent for pk, parent, _taint in lineage}
    tainted = {pk for pk, _parent, taint in lineage if taint}
    live = [row.pk for row in rows if row.status == status.LIVE and row.pk in tainted]
    yield [pk for pk in (_untainted(pk, parents, tainted) for pk in live) if pk], _("a cleaning would begin with it")


def _untainted(pk: int | None, parents: dict[int, int | None], tainted: set[int]) -> int | None:
    while pk is not None and pk in tainted:
        pk = parents[pk]
    return pk


def taken(checkpoint: Checkpoint) -> int:
    """Bytes of a checkpoint's files on this disk."""
    folder = checkpoint.folder
    return _weigh(folder) if folder is not None else 0


def _weigh(folder: Path) -> int:
    total = 0
    try:
        for entry in folder.rglob("*"):
            total += entry.lstat().st_size
    except OSError:  # another process removes it at this moment
        return total
    return total


def disk(stored: list[Stored], now: datetime | None = None) -> Disk:
    """What the checkpoints of a plan take, and for how long there is room."""
    now = now or timezone.now()
    home = stores.existing(Path(settings.DATA_DIR))
    space = shutil.disk_usage(home)
    newest = [one.bytes for one in stored if one.bytes][: forecast.RUNS]
    made = Checkpoint.objects.filter(created_at__gt=now - timedelta(days=MEASURED_DAYS)).exclude(path="")
    first, number = made.aggregate(first=Min("created_at"), number=Count("pk")).values()
    days = max(1.0, (now - first).total_seconds() / 86400) if first else 1.0
    return Disk(
        used=sum(one.bytes for one in stored),
        free=space.free,
        total=space.total,
        growth=sum(newest) // len(newest) if newest else None,
        runs_a_day=number / days,
        goes=sum(one.bytes for one in stored if one.goes),
    )


def let_go(checkpoint: Checkpoint, *, by: User | None = None) -> int:
    """Remove a checkpoint's files; its row stays and says so. Returns the bytes that were freed, 0 where something
    holds it meanwhile."""
    with transaction.atomic():
        Checkpoint.objects.select_for_update().get(number=0)  # no swap and no run begins with it meanwhile
        stored = next((one for one in plan() if one.checkpoint.pk == checkpoint.pk), None)
        if stored is None or not stored.goes:
            return 0
        row = Checkpoint.objects.get(pk=checkpoint.pk)
        row.let_go_at = timezone.now()
        row.save(update_fields=["let_go_at"])
        why = f"{row.status} since {row.moved_at:%Y-%m-%d}, and nothing needs it; {size(stored.bytes)} were freed"
        Decision.objects.create(checkpoint=row, verb=Decision.Verb.LET_GO, by=by, reason=why)
    remove(row.folder)
    checkpoint.refresh_from_db()
    return stored.bytes


def remove(folder: Path | None) -> None:
    """Have a folder be gone at once, and then its files: no process meets half of it."""
    if folder is None or not folder.exists():
        return
    gone = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    try:
        folder.rename(gone)
    except FileNotFoundError:  # another process was quicker
        return
    except OSError as error:
        said = _("%(folder)s was let go of, and cannot be removed: %(why)s.")
        raise Unremovable(said % {"folder": folder.name, "why": error.strerror}) from error
    shutil.rmtree(gone, ignore_errors=True)


def sweep() -> list[Checkpoint]:
    """Let go of what nothing holds, clear what dead processes left, tell of a disk that fills. Returns what went."""
    went = []
    for one in plan():
        if one.goes and let_go(one.checkpoint):
            went.append(one.checkpoint)
            log.info("%s was let go of: %s", one.checkpoint, size(one.bytes))
    clear_leftovers()
    watch()
    return went


def clear_leftovers() -> list[str]:
    """Remove what dead processes left half-way, unless a run is at work, whose weights no row names yet."""
    return clear_orphans(only_broken=True)


def watch() -> Disk:
    """Have the operator hear of a disk before it is full."""
    now = disk(plan())
    if now.is_short:
        notices.tell("disk", f"{SAYS['short']} {now.sentence} {SAYS['see']}", level=Notice.Level.WARNING)
    return now


@transaction.atomic
def pin(checkpoint: Checkpoint, *, by: User | None, reason: str) -> None:
    """Keep these weights until an operator unpins them. Raises ReasonMissing, IllegalMove for what is gone already."""
    reason = reason.strip()
    if not reason:
        raise ReasonMissing(_("Say in a few words why it is kept, so that others know when it may go."))
    row = Checkpoint.objects.select_for_update().get(pk=checkpoint.pk)
    if row.let_go_at is not None:
        raise IllegalMove(_("%(checkpoint)s was let go of: there are no weights to keep.") % {"checkpoint": row})
    if not row.path:
        said = _("%(checkpoint)s is the base: it has no weights of its own to pin, and is always kept.")
        raise IllegalMove(said % {"checkpoint": row})
    row.pinned = reason[:200]
    row.save(update_fields=["pinned"])
    Decision.objects.create(checkpoint=row, verb=Decision.Verb.PIN, by=by, reason=row.pinned)
    checkpoint.refresh_from_db()


@transaction.atomic
def unpin(checkpoint: Checkpoint, *, by: User | None, reason: str = "") -> None:
    """Let the rules decide again. Nothing happens where it is not pinned."""
    row = Checkpoint.objects.select_for_update().get(pk=checkpoint.pk)
    if not row.pinned:
        return
    row.pinned = ""
    row.save(update_fields=["pinned"])
    Decision.objects.create(checkpoint=row, verb=Decision.Verb.UNPIN, by=by, reason=reason.strip())
    checkpoint.refresh_from_db()
