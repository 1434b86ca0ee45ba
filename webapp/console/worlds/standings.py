"""Tell how far groups of attempts are, many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    CharField,
    Count,
    F,
    Max,
    Q,
    QuerySet,
    Value,
    When,
)
from django.utils import timezone
from django.utils.translation import pgettext_lazy

from episodes.models import FEWEST, Episode, Group, is_quiet, why_short
from training.models import Sample

NAMES = {
    "playing": pgettext_lazy("group", "being played"),
    "short": pgettext_lazy("group", "short"),
    "judging": pgettext_lazy("group", "being judged"),
    "judged": pgettext_lazy("group", "judged"),
    "learned": pgettext_lazy("group", "learned"),
    "examined": pgettext_lazy("group", "examined"),
}
"""How far a group is, as pages name it. One that is held out is `examined` once it is over."""

TONES = {"playing": "active", "short": "warn", "judging": "active", "judged": "good", "learned": "good"}


def _state(is_playing: Q) -> Case:
    """`Group.standing`, asked of the database, and what has become of a complete group since."""
    return Case(
        When(is_playing, then=Value("playing")),
        When(counted__lt=FEWEST, then=Value("short")),
        When(split=Group.Split.HELDOUT, then=Value("examined")),
        When(taught__gt=0, then=Value("learned")),
        When(judged_at__isnull=False, then=Value("judged")),
        default=Value("judging"),
        output_field=CharField(),
    )


_IS_PLAYING, _IS_WANTING = Q(playing__gt=0), Q(opened__lt=F("attempts"))


def annotated(groups: QuerySet[Group]) -> QuerySet[Group]:
    """Groups that know their `state`, and how many attempts were `opened`, are `playing`, are `counted`, were `taught`
    and were `solved`."""

    # No group has the number 0: a constant in its place is none that PostgreSQL takes to group by.
    is_left = Case(When(pk__in=_left(groups) or [0], then=Value(True)), default=Value(False))
    rows = _counted(groups).annotate(is_left=is_left)
    return rows.annotate(state=_state(_IS_PLAYING | (_IS_WANTING & ~Q(is_left=True))))


def _counted(groups: QuerySet[Group]) -> QuerySet[Group]:
    counted = _number(ending__in=(*Episode.SETTLED, Episode.Ending.TRUNCATED)) - _number(**FULL)
    return groups.annotate(
        opened=Count("episodes"),
        playing=_number(status=Episode.Status.PLAYING),
        counted=counted,
        taught=_number(status=Episode.Status.LEARNED),
        solved=_number(ending=Episode.Ending.SOLVED),
    )


FULL = {"ending": Episode.Ending.TRUNCATED, "cut_by": Episode.Cut.CONTEXT}
"""An attempt whose window was full: it does not count."""


def _number(**which: object) -> Count:
    return Count("episodes", filter=Q(**{f"episodes__{name}": value for name, value in which.items()}))


def _left(groups: QuerySet[Group]) -> list[int]:
    """Those of which attempts are wanting, and no player is left to open them. One query."""
    wanting = (
        groups.order_by()
        .filter(attempts__isnull=False, judged_at=None)
        .annotate(opened=Count("episodes"), last=Max("episodes__ended_at"), lease=Max("episodes__lease_s"))
    )
    now, rows = timezone.now(), wanting.filter(opened__lt=F("attempts"), last__isnull=False)
    return [pk for pk, last, lease in rows.values_list("pk", "last", "lease") if is_quiet([(last, lease)], now)]


def reason(group: Group) -> str:
    """Why an `annotated` group does not teach, where it is short."""
    return why_short(group.opened, group.counted) if group.state == "short" else ""  # type: ignore[attr-defined]  # it is annotated


@dataclass(frozen=True)
class Told:
    """A group in figures: how far it is, and what came of its attempts."""

    world: str
    split: str
    task: str
    checkpoint: int
    """Its number."""
    state: str
    solved: int
    counted: int
    full: int
    """Attempts whose window was full."""
    endings: dict[str, int]
    """How many attempts ended how, those left out that none did; empty: being played."""
    waits: bool
    """It is judged, and has steps that wait for training."""


ENDINGS = ("", *Episode.Ending.values)


def told(groups: QuerySet[Group]) -> list[Told]:
    """Each of these groups. One query."""
    # The steps first: those that wait are few, and groups are many.
    ready = Sample.objects.filter(status=Sample.Status.READY, episode__isnull=False).values("episode__group")
    ended = {f"ended_{at}": _number(ending=ending) for at, ending in enumerate(ENDINGS)}
    rows = (
        _counted(groups.order_by())
        .annotate(
            number=F("checkpoint__number"),
            full=_number(**FULL),
            **ended,
            ready=Count("episodes", filter=Q(pk__in=ready)),
            last=Max("episodes__ended_at"),
            lease=Max("episodes__lease_s"),
        )
        .annotate(otherwise=_state(_IS_PLAYING))
    )
    return list(_told(rows.values(*OF_GROUP, *ended)))


OF_GROUP = (
    *("world", "split", "task", "number", "attempts", "judged_at"),
    *("opened", "solved", "counted", "full", "ready", "last", "lease", "otherwise"),
)


def _told(rows: QuerySet[Group, dict[str, Any]]) -> Iterator[Told]:
    now = timezone.now()
    for row in rows:
        judged, last = row["judged_at"] is not None, row["last"]
        is_wanting = row["attempts"] is not None and row["opened"] < row["attempts"]
        is_left = not judged and last is not None and is_quiet([(last, row["lease"])], now)
        yield Told(
            row["world"],
            row["split"],
            row["task"],
            row["number"],
            "playing" if is_wanting and not is_left else row["otherwise"],
            row["solved"],
            row["counted"],
            row["full"],
            {ending: row[f"ended_{at}"] for at, ending in enumerate(ENDINGS) if row[f"ended_{at}"]},
            judged and row["ready"] > 0,
        )
