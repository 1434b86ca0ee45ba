"""Count what attempts came to: success by checkpoint and split, tasks by how often they are solved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from core.statistics import Arm, Bounds, wilson
from episodes.models import COUNTED, Episode, Group, counts
from webapp.charts import shares
from webapp.console.worlds import standings
from webapp.console.worlds.attempts import Row

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


def worlds(episodes: QuerySet[Episode]) -> list[World]:
    """Every world with what its attempts came to, by name. Two queries."""
    by_end = episodes.order_by().values_list(
        "group__world", "group__split", "group__checkpoint__number", "ending", "cut_by"
    )
    found = tallied(by_end.annotate(Count("pk")))
    for name, split, _, solved, played in tasks(episodes):
        _split(found[name], split).tasks.add(solved, played)
    return [found[name] for name in sorted(found)]


def tallied(rows: Iterable[tuple[str, str, int, str, str, int]]) -> dict[str, World]:
    """Worlds of (world, split, checkpoint, ending, cut by, how many), each row of its own."""
    found: dict[str, World] = {}
    seen: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
    for name, split, checkpoint, ending, cut_by, number in rows:
        world = found.setdefault(name, World(name))
        world.endings[ending] += number
        if ending == Episode.Ending.TRUNCATED and cut_by == Episode.Cut.CONTEXT:
            world.full += number
        if counts(ending, cut_by):
            seen[name, split, checkpoint][0] += number if ending == Episode.Ending.SOLVED else 0
            seen[name, split, checkpoint][1] += number
    for (name, split, checkpoint), (solved, played) in sorted(seen.items(), key=lambda one: -one[0][2]):
        _split(found[name], split).rows.append(Success(checkpoint, solved, played))
    return found


def tasks(
    episodes: QuerySet[Episode], after: Sequence[str] | None = None
) -> QuerySet[Episode, tuple[str, str, str, int, int]]:
    """Each task as (world, split, task, solved, played), by task, world and split; those after this one of them."""
    if after is not None:
        task, world, split = after
        same = Q(group__task=task)
        within = same & Q(group__world=world, group__split__gt=split)
        episodes = episodes.filter(Q(group__task__gt=task) | same & Q(group__world__gt=world) | within)
    counted = {"solved": Count("pk", filter=Q(ending=Episode.Ending.SOLVED)), "played": Count("pk", filter=COUNTED)}
    rows = episodes.order_by("group__task", "group__world", "group__split")
    return rows.values_list("group__world", "group__split", "group__task").annotate(**counted)


def _split(world: World, name: str) -> Split:
    """This split of the world, made if need be; train comes first."""
    known = next((one for one in world.splits if one.name == name), None)
    if known is None:
        known = Split(name)
        world.splits.append(known)
        world.splits.sort(key=lambda one: one.name != Group.Split.TRAIN)
    return known
