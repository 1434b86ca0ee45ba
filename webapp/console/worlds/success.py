"""Count what attempts came to: success by checkpoint and split, tasks by how often they are solved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from core.statistics import Arm, Bounds, wilson
from episodes.models import COUNTED, Episode, Group
from webapp.charts import shares
from webapp.console.worlds import standings
from webapp.console.worlds.attempts import Row
from webapp.console.worlds.standings import Told

SPLITS = {Group.Split.TRAIN: pgettext_lazy("split", "train"), Group.Split.HELDOUT: gettext_lazy("held-out")}
"""Each split as pages name it."""


@dataclass(frozen=True)
class Success:
    """How one checkpoint does at the tasks of one split."""

    checkpoint: int
    solved: int
    played: int
    """Attempts that count."""

    @property
    def share(self) -> float:
        return self.solved / self.played

    @property
    def interval(self) -> Bounds:
        return wilson(self.solved, self.played)


@dataclass
class Tasks:
    """How many tasks are solved in which part of their attempts."""

    always: int = 0
    never: int = 0
    sometimes: int = 0
    unplayed: int = 0
    """Of no attempt that counts."""

    @property
    def total(self) -> int:
        return self.always + self.never + self.sometimes + self.unplayed

    def add(self, solved: int, played: int) -> None:
        if not played:
            self.unplayed += 1
        elif solved == played:
            self.always += 1
        elif solved:
            self.sometimes += 1
        else:
            self.never += 1


@dataclass
class Split:
    """One split of a world."""

    name: str
    rows: list[Success] = field(default_factory=list)
    """By checkpoint, the newest first."""
    tasks: Tasks = field(default_factory=Tasks)

    @property
    def title(self) -> str:
        return str(SPLITS[Group.Split(self.name)])

    @property
    def chart(self) -> shares.Chart | None:
        arms = {f"@{row.checkpoint}": Arm(row.solved, row.played - row.solved) for row in reversed(self.rows)}
        return shares.ladder(arms, pgettext("attempt", "solved"))


@dataclass
class World:
    """What there is of one world."""

    name: str
    splits: list[Split] = field(default_factory=list)
    endings: Counter[str] = field(default_factory=Counter)
    full: int = 0
    """Attempts whose window was full, which do not count."""
    states: Counter[str] = field(default_factory=Counter)
    """Groups by how far they are (standings.NAMES)."""
    unscorable: list[Row] = field(default_factory=list)
    """The latest attempts that have no outcome."""
    judging: str = ""
    """Whether judges' votes on steps count in it, as a sentence."""

    @property
    def attempts(self) -> int:
        return self.endings.total()

    @property
    def unscored(self) -> int:
        return self.infra_errors + self.cancelled

    @property
    def groups(self) -> list[tuple[str, str, int, str]]:
        """(state, in words, how many, tone) of each state that a group is in."""
        named = standings.NAMES.items()
        return [
            (one, str(words), self.states[one], standings.TONES.get(one, ""))
            for one, words in named
            if self.states[one]
        ]

    @property
    def infra_errors(self) -> int:
        return self.endings[Episode.Ending.INFRA_ERROR]

    @property
    def cancelled(self) -> int:
        return self.endings[Episode.Ending.CANCELLED]


def worlds(groups: Sequence[Told]) -> list[World]:
    """Every world of which there is an attempt in these groups, by name, with what its attempts came to."""
    found: dict[str, World] = {}
    seen: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    by_task: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for group in groups:
        if not group.endings:
            continue
        world = found.setdefault(group.world, World(group.world))
        world.endings.update(group.endings)
        world.full += group.full
        for sums in (seen[group.world, group.split, group.checkpoint], by_task[group.world, group.split, group.task]):
            sums[0] += group.solved
            sums[1] += group.counted
    for (name, split, checkpoint), (solved, played) in sorted(seen.items(), key=lambda one: -one[0][2]):
        if played:
            _split(found[name], split).rows.append(Success(checkpoint, solved, played))
    for (name, split, _), (solved, played) in by_task.items():
        _split(found[name], split).tasks.add(solved, played)
    for group in groups:
        if group.world in found:
            found[group.world].states[group.state] += 1
    return [found[name] for name in sorted(found)]


def by_checkpoint(episodes: QuerySet[Episode]) -> list[Success]:
    """How each checkpoint did at these attempts, by world and split, the newest first. One query."""
    rows = episodes.order_by().values_list("group__world", "group__split", "group__checkpoint__number")
    found = sorted(rows.annotate(**TALLY), key=lambda row: (row[0], row[1] != Group.Split.TRAIN, -row[2]))
    return [Success(number, solved, played) for _, _, number, solved, played in found if played]


TALLY = {"solved": Count("pk", filter=Q(ending=Episode.Ending.SOLVED)), "played": Count("pk", filter=COUNTED)}


def tasks(
    episodes: QuerySet[Episode], after: Sequence[str] | None = None
) -> QuerySet[Episode, tuple[str, str, str, int, int]]:
    """Each task as (world, split, task, solved, played), by task, world and split; those after this one of them."""
    if after is not None:
        task, world, split = after
        same = Q(group__task=task)
        within = same & Q(group__world=world, group__split__gt=split)
        episodes = episodes.filter(Q(group__task__gt=task) | same & Q(group__world__gt=world) | within)
    rows = episodes.order_by("group__task", "group__world", "group__split")
    return rows.values_list("group__world", "group__split", "group__task").annotate(**TALLY)


def _split(world: World, name: str) -> Split:
    """This split of the world, made if need be; train comes first."""
    known = next((one for one in world.splits if one.name == name), None)
    if known is None:
        known = Split(name)
        world.splits.append(known)
        world.splits.sort(key=lambda one: one.name != Group.Split.TRAIN)
    return known
