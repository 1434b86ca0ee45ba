"""Tell how far groups of attempts are, many at a time."""

from __future__ import annotations

from collections import Counter, defaultdict

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

_IS_PLAYING = Q(playing__gt=0) | (Q(opened__lt=F("attempts")) & ~Q(is_left=True))
STATE = Case(
    When(_IS_PLAYING, then=Value("playing")),
    When(counted__lt=FEWEST, then=Value("short")),
    When(split=Group.Split.HELDOUT, then=Value("examined")),
    When(taught__gt=0, then=Value("learned")),
    When(judged_at__isnull=False, then=Value("judged")),
    default=Value("judging"),
    output_field=CharField(),
)
"""`Group.standing`, asked of the database, and what has become of a complete group since."""


def annotated(groups: QuerySet[Group]) -> QuerySet[Group]:
    """Groups that know their `state`, and how many attempts were `opened`, are `playing`, are `counted`, were `taught`
    and were `solved`."""

    def number(**which: object) -> Count:
        return Count("episodes", filter=Q(**{f"episodes__{name}": value for name, value in which.items()}))

    return groups.annotate(
        opened=Count("episodes"),
        # No group has the number 0: a constant in its place is none that PostgreSQL takes to group by.
        is_left=Case(When(pk__in=_left(groups) or [0], then=Value(True)), default=Value(False)),
        playing=number(status=Episode.Status.PLAYING),
        counted=number(ending__in=(*Episode.SETTLED, Episode.Ending.TRUNCATED))
        - number(ending=Episode.Ending.TRUNCATED, cut_by=Episode.Cut.CONTEXT),
        taught=number(status=Episode.Status.LEARNED),
        solved=number(ending=Episode.Ending.SOLVED),
    ).annotate(state=STATE)


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


def by_world(groups: QuerySet[Group]) -> dict[str, Counter[str]]:
    """How many groups are how far, by world. One query."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    rows = annotated(groups.order_by()).values_list("world", "state")  # type: ignore[misc]  # it is annotated
    for world, state in rows:
        found[world][state] += 1
    return found


def count_waiting(groups: QuerySet[Group]) -> int:
    """How many of these groups are judged and have steps that wait for training. One query."""
    # The steps first: those that wait are few, and groups are many.
    ready = Sample.objects.filter(status=Sample.Status.READY, episode__isnull=False)
    return groups.order_by().filter(pk__in=ready.values("episode__group"), judged_at__isnull=False).count()
