"""Which groups of attempts a line may learn from: a group is claimed as a whole, and put away as a whole.

Of a group that was taken back in part, as where a session was deleted, the rest teaches while at least two attempts
that count are left: a step that is not there any more counts as one of which nothing was said, and is not learned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from django.db.models import Count, F, Max, Q, QuerySet, Value
from django.utils.translation import gettext_noop

from core.errors import IllegalMove
from episodes.models import FEWEST, Episode, Group, counts
from training.config import Recipe
from training.models import Sample

PLAYED = Q(step__isnull=False)
"""A step of an attempt, and no turn of a person's."""

COUNTS = Q(episode__ending__in=Episode.SETTLED) | (
    Q(episode__ending=Episode.Ending.TRUNCATED) & ~Q(episode__cut_by=Episode.Cut.CONTEXT)
)
"""A step of an attempt that says something of the agent, as `episodes.models.counts` has it."""

ALONE = f"Fewer than {FEWEST} attempts of its group are left, and one cannot be compared."
DELETED = gettext_noop("Its attempt was deleted.")
LATE = gettext_noop("Its group was learned already, and later verdicts on single steps teach nothing.")
EXAMINES = gettext_noop("Its task examines, and never teaches.")


class Waiting(NamedTuple):
    """A group that can be claimed."""

    group: int
    attempts: int
    """Those of it that count."""
    is_tried: bool = False
    """A run had some of it, and failed."""


def ready(recipe: Recipe, line: str) -> QuerySet[Sample]:
    """READY steps of the judged groups that this line may learn from under this recipe, those that a failed run had
    included. Groups of one attempt that counts are among them (`waiting`)."""
    if not recipe.w_rl:
        return Sample.objects.none()
    rows = Sample.objects.filter(
        status=Sample.Status.READY,
        line=line,
        drop_reason="",
        step__isnull=False,
        episode__group__judged_at__isnull=False,
        episode__group__split=Group.Split.TRAIN,
    )
    begun = _of(line, Sample.Status.CLAIMED, Sample.Status.TRAINED)
    return rows.exclude(episode__group__in=begun.values("episode__group"))


def untried(recipe: Recipe, line: str) -> QuerySet[Sample]:
    """Those of them of groups that no run had yet."""
    return ready(recipe, line).exclude(episode__group__in=_tried(line))


def _tried(line: str) -> QuerySet[Sample, Any]:
    """The groups of which a run had some, and failed."""
    return _of(line, Sample.Status.READY).filter(run__isnull=False).values("episode__group")


def waiting(steps: QuerySet[Sample], line: str | None = None) -> list[Waiting]:
    """The groups of these steps, those that were judged first in front. With the line whose all they are each knows
    whether it is of the `untried`. One query."""
    return [Waiting(group, attempts, is_tried=tried > 0) for _, _, group, attempts, tried in found(steps, line)]


def found(steps: QuerySet[Sample], line: str | None) -> QuerySet[Sample, Any]:
    """Of each group its line, when it was judged, its key, how many of its attempts count and how many of its steps
    were tried."""
    return (
        steps.order_by()
        .values("line", group_pk=F("episode__group"))
        .annotate(
            judged=Max("episode__group__judged_at"),
            attempts=Count("episode", filter=COUNTS, distinct=True),
            tried=Count("pk", filter=Q(episode__group__in=_tried(line))) if line is not None else Value(0),
        )
        .filter(attempts__gte=FEWEST)
        .order_by("judged", "group_pk")
        .values_list("line", "judged", "group_pk", "attempts", "tried")
    )


def first(groups: Sequence[Waiting], room: int) -> list[Waiting]:
    """Those that a run takes that has room for so many attempts more: whole ones, the last may be larger than the rest
    of the room.

    >>> [one.group for one in first([Waiting(1, 8), Waiting(2, 4), Waiting(3, 8)], 9)], first([Waiting(1, 8)], 0)
    ([1, 2], [])
    """
    taken: list[Waiting] = []
    for one in groups:
        if sum(each.attempts for each in taken) >= room:
            break
        taken.append(one)
    return taken


def claimable(recipe: Recipe, line: str, groups: Sequence[Waiting]) -> QuerySet[Sample]:
    """The steps of these groups that "learn now" would claim."""
    return ready(recipe, line).filter(episode__group__in=[one.group for one in groups]).order_by("pk")


def lock(steps: QuerySet[Sample], room: int) -> tuple[list[Sample], bool]:
    """The steps of the `first` groups, locked until the transaction ends; and whether all are there: of a group of
    which another process has locked a part, none is."""
    chosen = [one.group for one in first(waiting(steps), room)]
    of_them = steps.filter(episode__group__in=chosen)
    wanted = Counter(of_them.order_by().values_list("episode__group", flat=True))
    locked = list(of_them.select_for_update(skip_locked=True, of=("self",)).select_related("episode").order_by("pk"))
    found = Counter(one.episode.group_id for one in locked if one.episode is not None)
    whole = {group for group, count in wanted.items() if found[group] == count}
    kept = [one for one in locked if one.episode is not None and one.episode.group_id in whole]
    return kept, len(whole) == len(chosen)


def alone(steps: Iterable[Sample]) -> list[Sample]:
    """Those of these steps, which come with their episodes, in whose group fewer than two attempts count."""
    steps = [one for one in steps if one.step is not None]
    attempts: dict[int, set[object]] = {}
    for one in steps:
        if one.episode is not None and counts(one.episode.ending, one.episode.cut_by):
            attempts.setdefault(one.episode.group_id, set()).add(one.episode_id)
    return [one for one in steps if one.episode is None or len(attempts.get(one.episode.group_id, ())) < FEWEST]


def put_away(line: str) -> int:
    """Make STALE the steps in this line that can never be learned from, each with its reason. Returns how many."""
    rows = Sample.objects.filter(PLAYED, status=Sample.Status.READY, line=line, drop_reason="")
    steps = list(rows.select_related("episode__group").only("status", "step", "episode"))
    if not steps:
        return 0
    learned = set(_of(line, Sample.Status.TRAINED).values_list("episode__group", flat=True))
    by_group: dict[int, list[Sample]] = {}
    for one in steps:
        if one.episode is not None:
            by_group.setdefault(one.episode.group_id, []).append(one)
    reasons = {one.pk: DELETED for one in steps if one.episode is None}
    for pk, members in by_group.items():
        reasons |= _why_not(members, is_learned=pk in learned)
    dropped = 0
    for one in steps:
        if reason := reasons.get(one.pk):
            try:
                one.move(Sample.Status.STALE, drop_reason=reason)
            except IllegalMove:  # claimed or dropped by another process meanwhile
                continue
            dropped += 1
    return dropped


def _why_not(steps: Sequence[Sample], *, is_learned: bool) -> dict[int, str]:
    """Why these steps of one group will never be learned from, by key; none of those that may be."""
    group = cast("Episode", steps[0].episode).group
    if group.split != Group.Split.TRAIN:
        return {one.pk: EXAMINES for one in steps}
    if is_learned:
        return {one.pk: LATE for one in steps}
    if group.judged_at is None:  # more attempts may come; where none do, its judge sees to it
        return {}
    return {one.pk: ALONE for one in alone(steps)}


def _of(line: str, *statuses: str) -> QuerySet[Sample]:
    """The steps in this line that are in one of these states."""
    return Sample.objects.filter(line=line, status__in=statuses, episode__isnull=False).order_by()
