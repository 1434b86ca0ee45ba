"""List attempts: chosen by world, task, split, checkpoint and ending, the newest first, each with why it ended so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils.translation import pgettext_lazy

from chat.models import Turn
from episodes.models import Episode, Group
from training.models import Sample
from webapp.console.worlds import endings, playback, sights

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PAGE = 40

LOST = "lost"
"""Chosen in place of an ending: the agent did not do it, however it ended."""
VOID = "unscorable"
PLAYING = "playing"

CHOICES: Mapping[str, StrOrPromise] = {
    Episode.Ending.SOLVED: pgettext_lazy("attempt", "solved"),
    LOST: pgettext_lazy("attempt", "not solved"),
    Episode.Ending.FAILED: pgettext_lazy("attempt", "failed"),
    Episode.Ending.TRUNCATED: pgettext_lazy("attempt", "cut off"),
    Episode.Ending.GAVE_UP: pgettext_lazy("attempt", "gave up"),
    VOID: pgettext_lazy("attempt", "unscorable"),
    Episode.Ending.INFRA_ERROR: pgettext_lazy("attempt", "the world failed"),
    Episode.Ending.CANCELLED: pgettext_lazy("attempt", "called off"),
    PLAYING: pgettext_lazy("attempt", "being played"),
}
"""What a list can be narrowed to."""


@dataclass(frozen=True)
class Chosen:
    """What a list is narrowed to. An unknown value in an address is left out, so that any address shows a list."""

    world: str = ""
    task: str = ""
    split: str = ""
    checkpoint: str = ""
    ending: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Chosen:
        said = {name: str(query.get(name, ""))[:200].replace("\0", "") for name in cls.__dataclass_fields__}
        if said["split"] not in Group.Split.values:
            said["split"] = ""
        if not (said["checkpoint"].isdecimal() and said["checkpoint"].isascii() and len(said["checkpoint"]) < 10):
            said["checkpoint"] = ""
        if said["ending"] not in CHOICES:
            said["ending"] = ""
        return cls(**said)

    def but(self, **changes: str) -> Chosen:
        return replace(self, **changes)

    @property
    def query(self) -> str:
        """As it stands in an address, what is not chosen left out."""
        return urlencode({name: value for name, value in asdict(self).items() if value})

    def narrowed(self, rows: QuerySet[Episode]) -> QuerySet[Episode]:
        about = {
            "group__world": self.world,
            "group__task": self.task,
            "group__split": self.split,
            "group__checkpoint__number": self.checkpoint,
        }
        rows = rows.filter(**{name: value for name, value in about.items() if value})
        if self.ending == LOST:
            return rows.filter(ending__in=endings.LOST)
        if self.ending == VOID:
            return rows.filter(ending__in=Episode.UNSCORED)
        if self.ending == PLAYING:
            return rows.filter(status=Episode.Status.PLAYING)
        return rows.filter(ending=self.ending) if self.ending else rows


@dataclass(frozen=True)
class Worst:
    """The step of an attempt that scored lowest, and what it was."""

    number: int
    """From 1."""
    score: float
    completion: str = ""
    doing: str = ""
    """What it did and what came back, on one line; empty where that is not this reader's."""


@dataclass(frozen=True)
class Row:
    """One attempt of a list."""

    episode: Episode
    why: str
    replies: int | None
    """None where its conversation was deleted."""
    worst: Worst | None = None
    """Of an attempt that was lost, and has a step that scored below 0."""

    @property
    def ending(self) -> str:
        return str(endings.WORDS[self.episode.ending])

    @property
    def tone(self) -> str:
        return endings.TONES.get(self.episode.ending, "")


def newest(rows: QuerySet[Episode], reader: User, *, before: str = "", most: int = PAGE) -> tuple[list[Row], str]:
    """A page of these attempts, the newest first, those opened before the attempt of this id; and the id of its last
    one where there are more. Five queries at most."""
    if (last := _found(before)) is not None:
        rows = rows.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    page = list(_with_groups(rows)[: most + 1])
    return rows_of(page[:most], reader), str(page[most - 1].pk) if len(page) > most else ""


def latest(rows: QuerySet[Episode], *kinds: tuple[Sequence[str], int]) -> list[list[Episode]]:
    """Of each kind, (endings, how many), so many of these attempts, the newest first. One query."""
    # Its keys in a query of its own: a database may then read the attempts in their order, and stop.
    newest = (rows.filter(ending__in=ends).order_by("-created_at", "-pk").values("pk")[:most] for ends, most in kinds)
    wanted = reduce(or_, (Q(pk__in=keys) for keys in newest))
    found = list(_with_groups(rows.filter(wanted)))
    return [[one for one in found if one.ending in ends] for ends, _ in kinds]


def _with_groups(rows: QuerySet[Episode]) -> QuerySet[Episode]:
    return rows.select_related("group__checkpoint", "group__user").order_by("-created_at", "-pk")


def rows_of(episodes: Sequence[Episode], reader: User) -> list[Row]:
    """Each with why it ended, how many replies it had and which step scored worst. Three queries."""
    replies = _replies(episodes)
    worst = _worst([one for one in episodes if one.ending in endings.LOST], replies, reader)
    found = []
    for episode in episodes:
        number = len(replies[episode.session_id]) if episode.session_id else None
        found.append(Row(episode, endings.why(episode, number), number, worst.get(episode.pk)))
    return found


def _worst(episodes: Sequence[Episode], replies: Mapping[Any, Sequence[str]], reader: User) -> dict[UUID, Worst]:
    """The first of each attempt's steps with its lowest score, where that is below 0."""
    found: dict[UUID, Worst] = {}
    for episode, scores in _scores(episodes, replies):
        at = min(scores, key=lambda n: (scores[n], n), default=None)
        if at is not None and scores[at] < 0:
            own = replies.get(episode.session_id, ())
            found[episode.pk] = Worst(at + 1, scores[at], own[at] if at < len(own) else "")
    turns = Turn.objects.filter(completion_id__in=[one.completion for one in found.values()]).select_related("session")
    brief = turns.only("completion_id", "message", "text", "next_state", "learns", "session__user", "session__learns")
    told = {turn.completion_id: playback.told(turn) for turn in brief if not sights.is_hidden(turn, reader)}
    return {pk: replace(one, doing=told.get(one.completion, "")) for pk, one in found.items()}


def _found(pk: str) -> Episode | None:
    """The attempt that a page ended with; None where an address names none."""
    try:
        return Episode.objects.only("created_at").filter(pk=UUID(pk)).first() if pk else None
    except ValueError:
        return None


def _replies(episodes: Sequence[Episode]) -> dict[Any, list[str]]:
    """The completion ids of each session, in their order."""
    sessions = [episode.session_id for episode in episodes if episode.session_id]
    rows = Turn.objects.filter(session__in=sessions, line=Turn.Line.MAIN).order_by("position", "created_at")
    found: dict[Any, list[str]] = defaultdict(list)
    for session, completion in rows.values_list("session", "completion_id"):
        found[session].append(completion)
    return found


def _scores(
    episodes: Sequence[Episode], replies: Mapping[Any, Sequence[str]]
) -> Iterator[tuple[Episode, dict[int, float]]]:
    """Each attempt with the scores of its steps, by their index: what a step teaches with, else what the world said."""
    judged: dict[UUID, dict[int, float]] = defaultdict(dict)
    samples = Sample.objects.filter(episode__in=[episode.pk for episode in episodes])
    for pk, step, reward in samples.order_by("pk").values_list("episode", "step", "reward"):
        if pk is not None and step is not None:
            judged[pk][step] = reward
    for episode in episodes:
        own = enumerate(replies.get(episode.session_id, ()))
        by_world = {n: episode.scores[completion] for n, completion in own if completion in episode.scores}
        yield episode, by_world | judged[episode.pk]
