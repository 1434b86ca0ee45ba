"""List attempts: chosen by world, task, split, checkpoint and ending, the newest first, each with why it ended so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import QueryDict

from chat.models import Turn
from episodes.models import Episode, Group
from training.models import Sample
from webapp.console.worlds import endings

PAGE = 40

LOST = "lost"
"""Chosen in place of an ending: the agent did not do it, however it ended."""
VOID = "unscorable"
PLAYING = "playing"

CHOICES: Mapping[str, str] = {
    Episode.Ending.SOLVED: "solved",
    LOST: "not solved",
    Episode.Ending.FAILED: "failed",
    Episode.Ending.TRUNCATED: "cut off",
    Episode.Ending.GAVE_UP: "gave up",
    VOID: "unscorable",
    Episode.Ending.INFRA_ERROR: "the world failed",
    Episode.Ending.CANCELLED: "called off",
    PLAYING: "being played",
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
class Row:
    """One attempt of a list."""

    episode: Episode
    why: str
    replies: int | None
    """None where its conversation was deleted."""
    worst: int | None = None
    """The step with the lowest score, from 1; None where no step has one."""
    worst_score: float | None = None

    @property
    def ending(self) -> str:
        return endings.WORDS[self.episode.ending]

    @property
    def tone(self) -> str:
        return endings.TONES.get(self.episode.ending, "")


def newest(rows: QuerySet[Episode], *, before: str = "", most: int = PAGE) -> tuple[list[Row], str]:
    """A page of these attempts, the newest first, those opened before the attempt of this id; and the id of its last
    one where there are more. Four queries at most."""
    if (last := _found(before)) is not None:
        rows = rows.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    rows = rows.select_related("group__checkpoint", "group__user").order_by("-created_at", "-pk")
    page = list(rows[: most + 1])
    return rows_of(page[:most]), str(page[most - 1].pk) if len(page) > most else ""


def rows_of(episodes: Sequence[Episode]) -> list[Row]:
    """Each with why it ended, how many replies it had and which step scored worst. Two queries."""
    replies = _replies(episodes)
    scores = _scores(episodes, replies)
    found = []
    for episode in episodes:
        own, number = scores[episode.pk], len(replies[episode.session_id]) if episode.session_id else None
        worst = min(own, key=lambda n: (own[n], n)) if own else None
        told = None if worst is None else own[worst]
        at = None if worst is None else worst + 1
        found.append(Row(episode, endings.why(episode, number), number, at, told))
    return found


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


def _scores(episodes: Sequence[Episode], replies: Mapping[Any, Sequence[str]]) -> dict[UUID, dict[int, float]]:
    """The scores of each attempt's steps, by their index: what the step teaches with, else what the world said."""
    found: dict[UUID, dict[int, float]] = defaultdict(dict)
    for episode in episodes:
        for n, completion in enumerate(replies.get(episode.session_id, ())):
            if isinstance(score := episode.scores.get(completion), int | float):
                found[episode.pk][n] = float(score)
    samples = Sample.objects.filter(episode__in=[episode.pk for episode in episodes])
    for pk, step, reward in samples.order_by("pk").values_list("episode", "step", "reward"):
        if pk is not None and step is not None:
            found[pk][step] = reward
    return found
